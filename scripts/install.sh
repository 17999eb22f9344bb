#!/usr/bin/env bash
# Makes or updates the environment .venv in the project folder; returns at once when it is current.
#
#   scripts/install.sh                      python3, or the newest of 3.12, 3.11, 3.10 there is
#   PYTHON=python3.11 scripts/install.sh    this interpreter (a .venv of another version is remade)
#
# pip's own settings (proxy, index, cache, find-links) are honoured. Versions: requirements.txt.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

VENV=.venv
STAMP=$VENV/.gtrans-stamp
LOG=$VENV/install.log
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_USER=0 PIP_PROGRESS_BAR=off
unset PYTHONHOME PYTHONPATH

fail() {
    echo "install: error: $*" >&2
    exit 1
}

# The version of an interpreter, "3.11.7"; nothing where it does not run.
version_of() {
    "$1" -c 'import platform; print(platform.python_version())' 2>/dev/null </dev/null
}

supported() {
    case "$1" in 3.10.* | 3.11.* | 3.12.*) return 0 ;; *) return 1 ;; esac
}

choose_python() {
    local name version
    if [ -n "${PYTHON:-}" ]; then
        version=$(version_of "$PYTHON")
        [ -n "$version" ] || fail "PYTHON=$PYTHON does not run; name a Python 3.10, 3.11 or 3.12"
        supported "$version" || fail "PYTHON=$PYTHON is Python $version; 3.10, 3.11 or 3.12 is needed"
        echo "$PYTHON"
        return
    fi
    for name in python3 python3.12 python3.11 python3.10; do
        if supported "$(version_of "$name")"; then
            echo "$name"
            return
        fi
    done
    fail "no Python 3.10, 3.11 or 3.12 found on PATH; install one, or name it: PYTHON=/path/to/python3.11"
}

# What the environment depends on; a moved folder counts, for scripts in .venv/bin name their path.
# One process, as it is what a second run costs.
fingerprint() {
    echo "python $1"
    echo "folder $PWD"
    sha256sum requirements.txt setup.py scripts/install.sh
}

# The lines of one section of requirements.txt.
section() {
    awk -v want="$1" '
        /^# \[/ { head = $0; sub(/^# \[/, "", head); sub(/\].*/, "", head)
                  on = index(" " head " ", " " want " ") }
        on && NF && !/^#/' requirements.txt
}

# The one line of pip's output that says why: its first ERROR that names something, else the last line.
reason_of() {
    awk '/^ *ERROR: / && !/ERROR: (Ignored the|Could not find a version)/ && !why { why = $0 }
        NF { last = $0 }
        END { if (!why) why = last; sub(/^ *(ERROR: )?/, "", why); print substr(why, 1, 300) }'
}

# step TITLE COMMAND...: runs it, its output in the log, with a sign of life while it lasts.
STEPS=6
HINT=
done_steps=0
child=
step() {
    local title=$1 start=$SECONDS last=0 reason
    shift
    done_steps=$((done_steps + 1))
    printf '[%d/%d] %s ...' "$done_steps" "$STEPS" "$title"
    printf '\n## %s\n' "$title" >>"$LOG"
    local from=$(($(wc -l <"$LOG") + 1))
    set -m # in a process group of its own, so that an interrupt ends pip's compilers too
    "$@" >>"$LOG" 2>&1 </dev/null 9>&- &
    child=$!
    set +m
    while kill -0 "$child" 2>/dev/null; do
        sleep 0.2
        if [ $((SECONDS - start - last)) -ge 10 ]; then
            last=$((SECONDS - start))
            printf ' %ds' "$last"
        fi
    done
    if ! wait "$child"; then
        child=
        printf ' failed\n'
        reason=$(tail -n "+$from" "$LOG" | reason_of)
        fail "$title: ${reason:-no output} (all of it in $LOG$HINT)"
    fi
    child=
    printf ' done, %ds\n' $((SECONDS - start))
}
trap '[ -z "$child" ] || kill -- "-$child" 2>/dev/null; echo; fail "interrupted; run it again to go on"' INT TERM

# ---- is there anything to do? -------------------------------------------------------------------
if [ -n "${PYTHON:-}" ]; then
    PYTHON=$(choose_python) || exit 1
fi
have=$(version_of $VENV/bin/python)
current() {
    [ -n "$have" ] && { [ -z "${PYTHON:-}" ] || [ "$(version_of "$PYTHON")" = "$have" ]; } \
        && [ "$(cat $STAMP 2>/dev/null)" = "$(fingerprint "$have")" ]
}
current && exit 0

# ---- one at a time ------------------------------------------------------------------------------
mkdir -p $VENV || fail "cannot make the folder $VENV"
if command -v flock >/dev/null; then
    exec 9>$VENV/.lock
    flock -n 9 || { echo "install: waiting for another install to end"; flock 9; }
    have=$(version_of $VENV/bin/python)
    current && exit 0
fi

# ---- the environment itself ---------------------------------------------------------------------
remake=
if [ -z "$have" ]; then
    remake="no Python in it runs"
elif ! supported "$have"; then
    remake="it is Python $have"
elif [ -n "${PYTHON:-}" ] && [ "$(version_of "$PYTHON")" != "$have" ]; then
    remake="it is Python $have"
elif ! $VENV/bin/python -m pip --version >/dev/null 2>&1; then
    remake="it has no pip"
elif [ "$(sed -n 's/^folder //p' $STAMP 2>/dev/null)" != "${PWD}" ] && [ -e $STAMP ]; then
    remake="it was made in another folder"
fi
if [ -n "$remake" ]; then
    python=$(choose_python) || exit 1
    have=$(version_of "$python")
    "$python" -c 'import ensurepip, venv' 2>/dev/null \
        || fail "$python has no venv module; install your system's package for it (Debian: python3-venv)"
    [ ! -e $VENV/pyvenv.cfg ] || echo "install: making $VENV anew: $remake"
fi

# fairseq-fixed is compiled from source unless there is a wheel.
case "$have $(uname -m)" in
3.12.*' x86_64') ;;
*)
    compiler=${CXX:-c++}
    # shellcheck disable=SC2086
    command -v ${compiler%% *} >/dev/null || command -v g++ >/dev/null \
        || fail "no C++ compiler ($compiler) found; install one (Debian: build-essential)"
    ${python:-$VENV/bin/python} -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' \
        || fail "Python.h of Python $have not found; install its headers (Debian: python3-dev)"
    ;;
esac

rm -f $STAMP
if [ -n "$remake" ]; then
    find $VENV -mindepth 1 -maxdepth 1 ! -name .lock -exec rm -rf {} +
fi
: >$LOG
echo "install: setting up $VENV with Python $have; a few minutes the first time, log in $LOG"

make_venv() {
    [ -z "$remake" ] || "$python" -m venv $VENV
}
pip() {
    $VENV/bin/python -m pip install -c requirements.txt "$@"
}
pip_sections() {
    local name
    for name in "$@"; do section "$name"; done >$VENV/.requirements
    [ -s $VENV/.requirements ] || { echo "error: requirements.txt has no section $*"; return 1; }
    pip --no-build-isolation -r $VENV/.requirements
}
pip_engine() {
    section engine >$VENV/.requirements
    pip --no-build-isolation --no-deps -r $VENV/.requirements
}
works() {
    $VENV/bin/python -c 'import torch, fairseq.tasks, fairseq.models, sacrebleu, gtrans' \
        && $VENV/bin/gtrans --version && [ -x $VENV/bin/fairseq-train ]
}

step "environment" make_venv
step "torch and build tools" pip_sections build
step "fairseq (about 90 s where it is built from source)" pip_engine
step "libraries and development tools" pip_sections core dev bert mbart plots
step "gtrans" pip --no-build-isolation --no-deps -e .
HINT="; if that does not help: remove $VENV and run it again"
step "first import" works

fingerprint "$have" >$STAMP.new && mv $STAMP.new $STAMP || fail "cannot write $STAMP"
echo "install: $VENV is ready"
