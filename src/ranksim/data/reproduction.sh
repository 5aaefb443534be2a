# What the script above is made of: POSIX sh with curl, awk, sed and od.

# call STEP KEY METHOD URL [OPTION...]: make a call, with the key of this variable; what was answered is kept.
call() {
  step=$1 method=$3 url=$4
  eval "token=\${$2-}"
  shift 4
  { test -z "$token" || printf 'header = "Authorization: Bearer %s"\n' "$token"; } |
    curl -sS -K - -X "$method" -o "$T/$step.body" -D "$T/$step.head" -w '%{http_code}' "$@" "$url" >"$T/$step.status"
  test -f "$T/$step.body" || : >"$T/$step.body"
  LC_ALL=C awk "$FLAT" "$T/$step.body" >"$T/$step.flat" 2>/dev/null || : >"$T/$step.flat"
  printf '  %s %s -> %s\n' "$method" "$url" "$(answer "$step")"
}

# burst COUNT KEY METHOD URL [OPTION...]: so many calls, ten at a time; how many were admitted, in how long.
burst() {
  count=$1 method=$3 url=$4 began=$(date +%s) sent=0
  eval "token=\${$2-}"
  shift 4
  : >"$T/burst"
  while test $sent -lt "$count"; do
    sent=$((sent + 1))
    printf 'header = "Authorization: Bearer %s"\n' "$token" |
      curl -sS -K - -X "$method" -o /dev/null -w '%{http_code}\n' "$@" "$url" >>"$T/burst" &
    test $((sent % 10)) -ne 0 || wait
  done
  wait
  ADMITTED=$(grep -cv 429 "$T/burst") TOOK=$(($(date +%s) - began + 1))
  echo "  $count times $method $url: $ADMITTED were admitted in $TOOK s"
}

# beyond LIMIT: whether more were admitted than any window would; below LIMIT: whether fewer, and others refused.
beyond() { test "$ADMITTED" -gt $(($1 + $1 * TOOK / WINDOW + 1)) && echo yes || echo no; }
below() { test "$ADMITTED" -lt "$1" && grep -q 429 "$T/burst" && echo yes || echo no; }

# Each scalar of a JSON text in a line: its place, a tab, the value as it stands there.
FLAT='
function space() { while (substr(s, i, 1) ~ /[ \t\r\n]/) i++ }
function string(  from) {
  from = i++
  while (i <= n && substr(s, i, 1) != "\"") i += substr(s, i, 1) == "\\" ? 2 : 1
  return substr(s, from + 1, i++ - from - 1)
}
function value(place,  c, end, name, from, count) {
  space(); c = substr(s, i, 1); from = i
  if (c == "{" || c == "[") {
    end = c == "{" ? "}" : "]"; i++
    for (count = 0; ; count++) {
      space(); if (substr(s, i, 1) == ",") { i++; space() }
      if (substr(s, i, 1) == end) { i++; break }
      if (i > n) exit 1
      name = count
      if (c == "{") { name = string(); space(); i++ }
      value(place == "" ? name : place "." name)
    }
    if (!count) print place "\t" c end
  } else if (c == "\"") print place "\t\"" string() "\""
  else {
    while (substr(s, i, 1) ~ /[-+.0-9A-Za-z]/) i++
    if (i == from) exit 1
    print place "\t" substr(s, from, i - from)
  }
}
{ s = s $0 "\n" }
END { n = length(s); i = 1; value("") }'

# place STEP PLACE: the scalar there, as JSON; text STEP PLACE: the same without quotes; none where nothing is.
place() { awk -F '\t' -v at="$2" '$1 == at { v = $2; f = 1 } END { print f ? v : "none" }' "$T/$1.flat"; }
text() { place "$1" "$2" | sed 's/^"\(.*\)"$/\1/'; }

# kind STEP PLACE: what sort of value is there.
kind() {
  awk -F '\t' -v at="$2" '
    $1 == at { k = $2 == "{}" || $2 == "[]" ? "more" : $2 == "null" ? $2 : "number" }
    $1 == at && $2 ~ /^"/ { k = "text" }
    $1 == at && $2 ~ /^(true|false)$/ { k = "boolean" }
    index($1, at ".") == 1 && k == "" { k = "more" }
    END { print k == "" ? "none" : k }' "$T/$1.flat"
}

# answer STEP: the status and the code of an error; header STEP NAME: a header, or none.
answer() {
  code=$(text "$1" code)
  test "$code" = none && cat "$T/$1.status" || echo "$(cat "$T/$1.status") $code"
}
header() {
  awk -v name="$2" '
    { i = index($0, ":"); sub(/\r$/, "") }
    i && tolower(substr($0, 1, i - 1)) == tolower(name) { v = substr($0, i + 1); sub(/^[ \t]+/, "", v); f = 1 }
    END { print f ? v : "none" }' "$T/$1.head"
}

# content STEP: all that a reply says, in order of places; count STEP: how many items a page shows.
content() { LC_ALL=C sort "$T/$1.flat" | cksum; }
count() { cut -f 1 "$T/$1.flat" | sed -n 's/^data\.\([0-9]*\)\(\..*\)*$/\1/p' | sort -u | wc -l | tr -d ' '; }

# listed STEP ITEM: whether a page shows an item; others STEP FIELD OWN: whether one has another value there.
listed() { cut -f 2 "$T/$1.flat" | grep -qxF "\"$2\"" && echo yes || echo no; }
others() {
  awk -F '\t' -v field="$2" -v own="\"$3\"" '
    $1 ~ "^data[.][0-9]+[.]" field "$" && $2 != own && $2 != "null" { f = 1 }
    END { print f ? "yes" : "no" }' "$T/$1.flat"
}

# masked TEXT: with 9 for each number; relation A B: whether two are the same.
masked() { printf '%s\n' "$1" | sed 's/[0-9][0-9]*/9/g'; }
relation() { test "$1" = "$2" && echo "the same" || echo different; }

# need STEP: what the rest stands on must have been made; made STEP KEY URL: to be removed in the end.
need() {
  case $(cat "$T/$1.status") in 2*) return ;; esac
  echo "what this needs could not be made: $(answer "$1")"
  exit 2
}
made() {
  case $(cat "$T/$1.status") in
    2*) test "$(text "$1" data.id)" = none || echo "$2 $3/$(text "$1" data.id)" >>"$T/made" ;;
  esac
}
clean() {
  result=$?
  trap - EXIT
  test ! -s "$T/made" || sed -n '1!G;h;$p' "$T/made" | while read -r key url; do call end "$key" DELETE "$url"; done
  rm -rf "$T"
  exit $result
}

# sign NAME RECORDED NOW: one thing by which the deviation shows.
sign() {
  printf '  %s: %s; recorded: %s\n' "$1" "$3" "$2"
  test "$2" = "$3" || shows=no
}

T=$(mktemp -d) || exit 2
trap clean EXIT
trap 'exit 2' INT TERM HUP
try=0
while test $((try += 1)) -le "$TRIES"; do
  RUN=$(od -An -N4 -tx1 /dev/urandom | tr -d ' \n') shows=yes
  steps
  signs
  test $shows != "$UNTIL" || break
done
if cat "$T"/*.status | grep -q 000; then echo "a call got no answer"; exit 2; fi
test $shows = yes && echo "the deviation shows" && exit 1
echo "the deviation does not show"
