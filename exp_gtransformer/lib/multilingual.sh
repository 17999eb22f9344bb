# Text of several languages: one of them, the first of --langs, is translated from and to all others.
# Needs common.sh.
# shellcheck shell=bash disable=SC2034,SC2154 # names that the files here share

OPTION[langs]="" OPTION[xlmr]=""
# LANGS: all languages, that of every pair first. PAIRS: the names of the pairs in names of files, such
# as de-en with en first.
LANGS=() PAIRS=()
# SPLIT_PREFIX: by split, what stands before PAIR.LANG in the names of its texts.
declare -A SPLIT_PREFIX=()

# multilingual_usage: print the help of the options of the text.
multilingual_usage() {
  cat <<EOF
  --data DIR            folder of the corpora: text in DIR/NAME/{train,dev,test}.L-M.{L,M}[.gz], as
                        gtrans get-corpus writes it; every pair has the language M, such as en.
                        Both sides have the same sentences, and boundaries at the same places
  --train-prefix, --valid-prefix, --test-prefix PREFIX
                        text in another place: PREFIX.L-M.{L,M}[.gz]
  --langs M,L,L,..      M and all others (default: those of the text). Of two languages, the text may
                        be that of a corpus of one pair, PREFIX.{L,M}[.gz]
EOF
}

# check_text_options: options of the preparation of one pair of languages are refused.
check_text_options() {
  local key
  for key in source-lang target-lang bpe-symbols normalise sentence-data; do
    [[ -z ${GIVEN[$key]+given} ]] ||
      die "\`--$key\` is for one pair of languages; leave it out (--langs names the languages, \
--bpe-merges the size of the vocabulary)."
  done
}

# find_prefixes: set SPLIT_PREFIX.
find_prefixes() {
  local split prefix
  for split in train valid test; do
    prefix=${OPTION[$split-prefix]}
    if [[ -z $prefix ]]; then
      [[ -n ${OPTION[corpus]} ]] || die "\`--corpus\` is missing (or \`--$split-prefix\`)."
      [[ -n ${OPTION[data]} ]] ||
        die "\`--data\` is missing: the folder that holds ${OPTION[corpus]}/."
      prefix=${OPTION[data]}/${OPTION[corpus]}/${split/valid/dev}
    fi
    SPLIT_PREFIX[$split]=$prefix
  done
}

# find_langs: set LANGS and PAIRS, those of --langs or of the training text.
find_langs() {
  local file name middle="" lang
  if [[ -n ${OPTION[langs]} ]]; then
    [[ ${OPTION[langs]} == *,* ]] ||
      die "\`--langs\` must be the language of all pairs, such as en, and the others."
    IFS=, read -ra LANGS <<<"${OPTION[langs]}"
  else
    for file in "${SPLIT_PREFIX[train]:-}".*-*.*; do
      name=${file#"${SPLIT_PREFIX[train]:-}".} && name=${name%.gz}
      [[ -f $file && $name =~ ^([^.-]+)-([^.-]+)\.([^.]+)$ ]] || continue
      [[ ${BASH_REMATCH[3]} == "${BASH_REMATCH[2]}" ]] || continue
      [[ -z $middle || $middle == "${BASH_REMATCH[2]}" ]] ||
        die "$file: all pairs must have one language in common, whose name stands last."
      middle=${BASH_REMATCH[2]} LANGS+=("${BASH_REMATCH[1]}")
    done
    [[ -n $middle ]] ||
      die "\`--langs\` is missing: the language of all pairs, such as en, then all others."
    LANGS=("$middle" "${LANGS[@]}")
  fi
  check_langs
  for lang in "${LANGS[@]:1}"; do PAIRS+=("$lang-${LANGS[0]}"); done
}

# check_langs: end if a language is no name that files and options can have, or is there twice.
check_langs() {
  local lang found=" "
  for lang in "${LANGS[@]}"; do
    [[ $lang =~ ^[A-Za-z0-9_]+$ ]] ||
      die "the language '$lang' must have only letters, digits and '_' (--langs, or a name of a file)."
    [[ $found != *" $lang "* ]] ||
      die "the language '$lang' is there twice (--langs, or files that are gzipped and not)."
    found+="$lang "
  done
}

# pair_text SPLIT PAIR LANG: print the name of a text, gzipped or not.
pair_text() {
  local prefix=${SPLIT_PREFIX[$1]}
  if ((${#LANGS[@]} == 2)) && [[ -f $prefix.$3 || -f $prefix.$3.gz ]]; then
    text_file "$prefix" "$3"
  else
    text_file "$prefix.$2" "$3"
  fi
}

# find_texts: end if a text is missing.
find_texts() {
  local split pair
  for split in train valid test; do
    for pair in "${PAIRS[@]}"; do
      pair_text "$split" "$pair" "${pair%-*}" >/dev/null
      pair_text "$split" "$pair" "${pair#*-}" >/dev/null
    done
  done
}
