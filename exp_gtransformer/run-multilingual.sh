#!/usr/bin/env bash
exec bash "$(dirname "${BASH_SOURCE[0]}")/fusion/run-multilingual.sh" "$@"
