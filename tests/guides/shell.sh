# What stands for the reader while a guide is run (tests/guides/running.py): a server that goes on until Ctrl-C is left
# running once it serves, and ends when the guide starts the next one of its kind; any other command that goes on until
# Ctrl-C is interrupted once it has shown something; questions are answered with yes; pip has all that it is asked for;
# make says what it would do.
set -euo pipefail
ip link set lo up
mount --bind "$ASIDE/hosts" /etc/hosts
mkdir "$ASIDE/servers"
echo Tr0ub4dor-and-3 >"$ASIDE/password"

make() { command make --dry-run --directory "$REPOSITORY" "$@" >/dev/null; }

curl() { command curl --silent --show-error --fail-with-body "$@" && echo; }

python() { "$PYTHON" "$@"; }

pip() { # install 'penstock[extra,extra]'
    local extra
    for extra in $(echo "${2#penstock}" | tr '[],"' '    '); do
        [[ " $EXTRAS " == *" $extra "* ]] || { echo "there is no extra $extra" >&2; return 1; }
    done
}

penstock() {
    case "$1 ${2-}" in
        "broker start") serve "$@" --set group.initial.rebalance.delay.ms=0 ;;
        *" start" | "streams serve") serve "$@" ;;
        "sql "* | "pipeline run" | "pipeline reset" | "pipeline describe" | "streams run" | "streams reset" | "streams describe")
            ask stays "$@" ;;
        *) if goes_on "$@"; then until_shown "$@"; else ask forks "$@" $(answers_to "$@"); fi ;;
    esac
}

ask() { # forks|stays ARGUMENTS: see command_server.py
    local socket="$ASIDE/$1"
    [ -S "$socket" ] || begin "$1"
    shift
    "$PYTHON" -I -S "$HERE/command_client.py" "$socket" "$@"
}

begin() {
    "$PYTHON" "$HERE/command_server.py" "$1" "$ASIDE/$1" </dev/null &
    helpers+=($!)
    until [ -S "$ASIDE/$1" ]; do
        kill -0 $! || return 1
        sleep 0.02
    done
}

cell() { ask stays cell "$1"; }

serve() { # the one that has its data or its port ends before
    local log="$ASIDE/$1-$RANDOM.log" place server
    for place in $(places_of "$@"); do
        [ ! -e "$ASIDE/servers/$place" ] || stop "$(cat "$ASIDE/servers/$place")"
    done
    "$PYTHON" -m penstock "$@" >"$log" 2>&1 </dev/null &
    server=$!
    for place in $(places_of "$@"); do echo "$server" >"$ASIDE/servers/$place"; done
    until grep --quiet --extended-regexp ' is ready at |^Started in ' "$log"; do
        kill -0 "$server" 2>/dev/null || { cat "$log" >&2; return 1; }
        sleep 0.05
    done
    cat "$log"
}

places_of() {
    local port before="" argument
    case "$1" in broker) port=9092 ;; registry) port=8081 ;; rest) port=8082 ;; *) port="of-$1" ;; esac
    for argument in "$@"; do
        case "$before" in
            --data) echo "data-${argument//\//-}" ;;
            --listen) port="${argument##*:}" ;;
        esac
        before="$argument"
    done
    echo "port-$port"
}

end() {
    local server
    for server in $(cat "$ASIDE"/servers/* 2>/dev/null | sort --unique); do stop "$server"; done
    for server in "${helpers[@]-}"; do
        [ -n "$server" ] || continue
        kill "$server"
        wait "$server" || true
    done
}

stop() { # PID: as Ctrl-C does
    grep --files-with-matches --line-regexp "$1" "$ASIDE"/servers/* | xargs rm
    kill -TERM "$1"
    wait "$1" || { echo "a server ended with code $?" >&2; return 1; }
}

goes_on() {
    case " $* " in
        *" --exit "*) return 1 ;;
        " consume "* | " audit follow "* | *" --watch "*) return 0 ;;
        *) return 1 ;;
    esac
}

until_shown() {
    local shown="$ASIDE/shown" command
    : >"$shown"
    set -m # otherwise what is in the background hears no SIGINT
    "$PYTHON" -m penstock "$@" >"$shown" &
    command=$!
    set +m
    until [ -s "$shown" ]; do
        kill -0 "$command" 2>/dev/null || break
        sleep 0.05
    done
    kill -INT "$command"
    wait "$command"
    cat "$shown"
}

silently() { # FILE: a program that says nothing
    local said
    said=$("$PYTHON" "$1" 2>&1)
    [ -z "$said" ] || { echo "$1 said: $said" >&2; return 1; }
}

answers_to() { # what a command would ask for
    case "$1 ${2-}" in
        "users add" | "users password") case " $* " in *" --password-file "*) ;; *) echo --password-file "$ASIDE/password" ;; esac ;;
        "topics delete" | "topics delete-records" | "groups delete" | "groups delete-offsets" | "schemas delete" | \
            "schemas import" | "transactions abort" | "acls remove" | "policies remove" | "users remove" | \
            "certificates revoke" | "leaders elect")
            case " $* " in *" --yes "*) ;; *) echo --yes ;; esac ;;
    esac
}

helpers=()
