#!/bin/sh
# Make up passwords for the servers in compose.yml, and write them where it looks for them. Nothing is overwritten.
set -eu
folder=${1:-$(dirname "$0")/secrets}

if [ -e "$folder" ]; then
    echo "$folder is there already: its passwords are in use. Remove it, with the volumes, to begin anew." >&2
    exit 1
fi

# Letters and digits alone: nothing of it has to be escaped in a URL.
password() {
    LC_ALL=C tr -dc 'A-Za-z0-9' </dev/urandom | head -c 32
}

# Containers read the files as users of their own: nobody else gets into the folder.
umask 077
mkdir -p "$folder"
postgres=$(password)
rabbitmq=$(password)
printf '%s\n' "$postgres" >"$folder/postgres_password"
printf '%s\n' "postgresql://onward:$postgres@postgres:5432/onward" >"$folder/store_url"
printf 'default_user = onward\ndefault_pass = %s\n' "$rabbitmq" >"$folder/rabbitmq_login"
printf '%s\n' "amqp://onward:$rabbitmq@rabbitmq:5672/" >"$folder/bus_url"
password >"$folder/grafana_password"
password >"$folder/console_token"
chmod 444 "$folder"/*
echo "The passwords are in $folder."
