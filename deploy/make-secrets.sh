#!/bin/sh
# Generate the secrets that compose.yml reads. Existing files are not overwritten.
set -eu
folder=${1:-$(dirname "$0")/secrets}

if [ -e "$folder" ]; then
    echo "$folder exists, and its passwords are in use. To start again, remove it and the volumes." >&2
    exit 1
fi

# Letters and digits only, so that no character has to be escaped in a URL.
password() {
    LC_ALL=C tr -dc 'A-Za-z0-9' </dev/urandom | head -c 32
}

# The files are readable by all, because each container has its own user; the folder is for its owner only.
umask 077
mkdir -p "$folder"
postgres=$(password)
printf '%s\n' "$postgres" >"$folder/postgres_password"
printf '%s\n' "postgresql://onward:$postgres@postgres:5432/onward" >"$folder/store_url"
password >"$folder/grafana_password"
password >"$folder/console_token"
chmod 444 "$folder"/*
echo "The secrets are in $folder."
