#!/usr/bin/env bash
exec bash "$(dirname "${BASH_SOURCE[0]}")/gtransformer/run-finetune.sh" "$@"
