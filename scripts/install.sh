#!/usr/bin/env bash
# Makes or updates the environment .venv in the project folder; returns at once when it is current.
#
#   scripts/install.sh            what a user needs
#   scripts/install.sh tests      also what the tests need: pytest, hypothesis, mypy, ruff
#
#   PYTHON=python3.12             this interpreter (a .venv of another version is remade); otherwise
#                                 python3, or the newest of 3.13, 3.12, 3.11 there is
#   TORCH=torch-2.13.0-....whl    this file instead of the torch that pip finds
#   TORCH=2.12.1                  this version of it
#   TORCH=system                  the torch that the interpreter has; nothing of it is downloaded
#
# What was chosen for .venv stays chosen. pip's own settings (proxy, index, cache, find-links) are
# honoured. Versions: requirements.txt.
set -uo pipefail
case ${TORCH:=} in
*.whl) TORCH=$(realpath -- "$TORCH") ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

VENV=.venv
STAMP=$VENV/.gtrans-stamp
LOG=$VENV/install.log
TORCH_CHOICE=$VENV/.gtrans-torch
CONSTRAINTS=$VENV/.constraints
KNOWN="3.11, 3.12 or 3.13"
TESTS=no
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_USER=0 PIP_PROGRESS_BAR=off
unset PYTHONHOME PYTHONPATH

fail() { echo "install: error: $*" >&2; exit 1; }

# The version of an interpreter, "3.11.7"; nothing where it does not run.
version_of() { "$1" -c 'import platform; print(platform.python_version())' 2>/dev/null </dev/null; }

supported() { case "$1" in 3.11.* | 3.12.* | 3.13.*) return 0 ;; *) return 1 ;; esac; }

# The last line that a command prints: what it failed of.
last_line_of() { "$@" 2>&1 </dev/null | awk 'NF { last = $0 } END { print substr(last, 1, 300) }'; }

choose_python() {
    local name version
    if [ -n "${PYTHON:-}" ]; then
        version=$(version_of "$PYTHON")
        [ -n "$version" ] || fail "PYTHON=$PYTHON does not run\
 ($(last_line_of "$PYTHON" -c 'import platform')); name a Python $KNOWN"
        supported "$version" || fail "PYTHON=$PYTHON is Python $version; $KNOWN is needed"
        echo "$PYTHON"
        return
    fi
    for name in python3 python3.13 python3.12 python3.11; do
        if supported "$(version_of "$name")"; then
            echo "$name"
            return
        fi
    done
    fail "no Python $KNOWN found on PATH; install one, or name it: PYTHON=/path/to/python3.11"
}

# What the environment depends on; a moved folder counts, for scripts in .venv/bin name their path.
# One process, as it is what a second run costs.
fingerprint() {
    echo "python $1"
    echo "folder $PWD"
    echo "tests $2"
    echo "torch $TORCH"
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
STEPS=7
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

case ${1-} in
'') ;;
tests) TESTS=yes ;;
*) fail "'$1' is unknown; give 'tests', or nothing" ;;
esac

# ---- is there anything to do? -------------------------------------------------------------------
[ -n "$TORCH" ] || TORCH=$(cat $TORCH_CHOICE 2>/dev/null)
case $TORCH in
'' | system | [0-9]*.[0-9]* | *.whl) ;;
*) fail "TORCH=$TORCH: give the file of a wheel (torch-....whl), a version (2.13.0), or system" ;;
esac
if [ -n "${PYTHON:-}" ]; then
    PYTHON=$(choose_python) || exit 1
fi
have=$(version_of $VENV/bin/python)
current() {
    [ -n "$have" ] && { [ -z "${PYTHON:-}" ] || [ "$(version_of "$PYTHON")" = "$have" ]; } \
        || return 1
    local stamp
    stamp=$(cat $STAMP 2>/dev/null)
    # What the tests need, once installed, stays.
    case $stamp in *$'\ntests yes\n'*) TESTS=yes ;; esac
    [ "$stamp" = "$(fingerprint "$have" $TESTS)" ]
}
current && exit 0
case $TORCH in
*.whl) [ -f "$TORCH" ] || fail "TORCH=$TORCH: there is no such file; give TORCH=... another one" ;;
esac

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

# The folder with the interpreter's own torch, and everything else that is installed there: what this
# project needs in another version is put into .venv, whose packages come first.
system_torch=
if [ "$TORCH" = system ]; then
    owner=${PYTHON:-$(choose_python)} || exit 1
    where='import os, torch; print(os.path.dirname(os.path.dirname(os.path.abspath(torch.__file__))))'
    system_torch=$("$owner" -c "$where" 2>/dev/null </dev/null)
    [ -n "$system_torch" ] || fail "TORCH=system: $owner has no torch\
 ($(last_line_of "$owner" -c "$where"))"
    case $system_torch in
    "$PWD/$VENV"/*) fail "TORCH=system: $owner is that of $VENV itself; name another: PYTHON=..." ;;
    esac
    [ "$(version_of "$owner")" = "$have" ] \
        || fail "TORCH=system: $owner is not the Python $have of $VENV; name that one: PYTHON=..."
fi

# What is going to be downloaded, unless pip has it in its cache; measured on x86_64.
has() { [ -z "$remake" ] && compgen -G "$VENV/lib/python*/site-packages/$1" >/dev/null; }
downloads=
has torch || case $TORCH in
'') downloads="torch (2.7 GB with CUDA, what pip chooses by itself, 4.7 GB on disk; 0.2 GB where pip's settings\
 choose a build for the CPU; TORCH=... takes one that is there), " ;;
[0-9]*) downloads="torch $TORCH (2 to 3 GB with CUDA), " ;;
esac
has transformers || downloads+="libraries (0.15 GB), "
[ $TESTS = no ] || has pytest || downloads+="what the tests need (0.06 GB), "
tests=
[ $TESTS = no ] || tests="dev zh tensorboard"

rm -f $STAMP
if [ -n "$remake" ]; then
    find $VENV -mindepth 1 -maxdepth 1 ! -name .lock -exec rm -rf {} +
fi
: >$LOG
echo "install: setting up $VENV with Python $have; a few minutes the first time, log in $LOG"
[ -z "$downloads" ] || echo "install: to download: ${downloads%, }"

make_venv() {
    [ -z "$remake" ] || "$python" -m venv $VENV || return 1
    printf '%s' "$TORCH" >$TORCH_CHOICE
    if [ -z "$TORCH" ]; then
        cat requirements.txt
    else # torch is not the pinned one
        grep -v '^torch==' requirements.txt
    fi >$CONSTRAINTS
}
# The interpreter's torch is seen where it is needed, and not by the other steps: pip would be content
# with what is installed beside it, in any version that fits, and leave out its commands.
see_torch() {
    local pth
    pth=$($VENV/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/gtrans-torch.pth
    rm -f "$pth"
    [ "$1" = no ] || [ -z "$system_torch" ] || printf '%s\n' "$system_torch" >"$pth"
}
pip() {
    $VENV/bin/python -m pip install -c $CONSTRAINTS "$@"
}
pip_torch() {
    case $TORCH in
    '') pip_sections torch ;;
    system) ! has torch || $VENV/bin/python -m pip uninstall -y torch ;;
    *.whl) pip "$TORCH" ;;
    *) pip "torch==$TORCH" ;;
    esac
}
pip_sections() {
    local name
    see_torch no
    for name in "$@"; do section "$name"; done >$VENV/.requirements
    [ -s $VENV/.requirements ] || { echo "error: requirements.txt has no section $*"; return 1; }
    pip --no-build-isolation -r $VENV/.requirements
}
pip_engine() {
    section engine >$VENV/.requirements
    see_torch yes
    pip ${system_torch:+--ignore-installed} --no-build-isolation --no-deps -r $VENV/.requirements
}
works() {
    see_torch yes
    $VENV/bin/python -c 'import torch, fairseq.tasks, fairseq.models, sacrebleu, gtrans' \
        && $VENV/bin/gtrans --version && [ -x $VENV/bin/fairseq-train ]
}

step "environment" make_venv
step "torch" pip_torch
step "build tools" pip_sections build
step "fairseq (about 90 s where it is built from source)" pip_engine
# shellcheck disable=SC2086 # names of sections
step "libraries" pip_sections core bert mbart plots documents $tests
step "gtrans" pip --no-build-isolation --no-deps -e .
HINT="; if that does not help: remove $VENV and run it again"
step "first import" works

{ fingerprint "$have" $TESTS >$STAMP.new && mv $STAMP.new $STAMP; } || fail "cannot write $STAMP"
echo "install: $VENV is ready"
