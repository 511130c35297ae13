"""Databases: SQL that destroys data, wherever a client gets it from, and the programs that drop data themselves."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from billhook.effects.effect import UNKNOWN, Effect, Weight
from billhook.effects.families.network import is_here
from billhook.effects.places import scope_of
from billhook.effects.table import Call, Reader, Row, parts_of, word_set

LARGEST_SQL: Final = 256 * 1024
_THROWAWAY: Final = frozenset({"test", "tests", "testing", "tmp", "temp", "scratch", "memory", "e2e"})

# ----- SQL ------------------------------------------------------------------------------------------------------------

_SQL = re.compile(
    r"""
    (?P<run>     /\*!\d* )                           # MySQL runs what such a comment holds
  | (?P<comment> --[^\n]* | /\*.*?(?:\*/|\Z) | ^[ \t]*\#[^\n]* )
  | (?P<text>    '[^']*(?:'|\Z) )
  | (?P<name>    "[^"]*(?:"|\Z) | `[^`]*(?:`|\Z) | \[[^\]\n;]*\] )
  | (?P<end>     ; | \\[gG] | ^GO[ \t]*$ )
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_BEFORE: Final = frozenset({"BEGIN", "DO", "$$", "THEN", "ELSE", "LOOP"})
_DROPPED: Final = word_set("DATABASE SCHEMA TABLE USER ROLE TABLESPACE KEYSPACE OWNED DATASET COLLECTION BUCKET")
_NO_NAMES: Final = word_set("IF EXISTS TABLE ONLY FROM CASCADE PURGE")
_KEPT_COLUMNS: Final = word_set("CONSTRAINT INDEX KEY PRIMARY FOREIGN DEFAULT NOT IDENTITY EXPRESSION CHECK")
_ALWAYS = re.compile(r"(?:\(*(?:1|TRUE|(\w+)=\1)\)*)(?:RETURNING.*)?")


def _replaced(found: re.Match[str]) -> str:
    if found.lastgroup == "name":
        return re.sub(r"\W", "_", found[0][1:].rstrip('"`]'))
    return {"text": " s ", "end": ";"}.get(found.lastgroup or "", " ")


def statements(text: str) -> Iterator[list[str]]:
    """The words of each statement, upper case, without comments; a string is `S`."""
    for statement in _SQL.sub(_replaced, text[:LARGEST_SQL]).upper().split(";"):
        words = statement.replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split()
        while words and words[0] in _BEFORE:
            del words[0]
        if words[:1] == ["WITH"]:
            words = words[next((at for at, word in enumerate(words) if word in ("DELETE", "UPDATE")), 0) :]
        if words:
            yield words


def destroyed(words: list[str]) -> str | None:
    """What a statement destroys: the name of a table or database, lower case; None where it destroys nothing."""
    verb, rest = words[0], words[1:]
    if verb == "DROP" and rest and rest[0] in _DROPPED:
        return _name(rest[1:])
    if verb == "TRUNCATE" and rest:
        return _name(rest)
    if verb == "DELETE" and rest[:1] == ["FROM"] and _is_everywhere(rest):
        return _name(rest)
    if verb == "UPDATE" and "SET" in rest and _is_everywhere(rest):
        return _name(rest)
    if verb == "ALTER" and rest[:1] == ["TABLE"] and _drops_column(rest):
        return _name(rest)
    cypher = verb == "MATCH" and "DELETE" in rest and _is_everywhere(rest)
    return "nodes" if cypher else None


def _name(words: list[str]) -> str:
    return next((word.lower() for word in words if word not in _NO_NAMES), "")


def _is_everywhere(words: list[str]) -> bool:
    """Whether no WHERE limits a statement, or one that is always true."""
    if "WHERE" not in words:
        return True
    condition = "".join(words[words.index("WHERE") + 1 :])
    return _ALWAYS.fullmatch(condition) is not None


def _drops_column(words: list[str]) -> bool:
    after = [words[at + 1 : at + 2] for at, word in enumerate(words) if word == "DROP"]
    return any(following and following[0] not in _KEPT_COLUMNS for following in after)


def effects_of_sql(call: Call, text: str, database: Iterable[str] = ()) -> Iterator[Effect]:
    """What a text of SQL destroys in a database, of which names, hosts or paths are given."""
    names = [word for word in database if word]
    for words in statements(text):
        target = destroyed(words)
        if target is not None:
            yield _destroy(call, target or words[0].lower(), names)


def _destroy(call: Call, target: str, names: Iterable[str] = (), weight: Weight = "normal") -> Effect:
    names = [target, *names, *call.command.assignments]
    if any(
        scope_of(path, call.scopes) == "temp"
        for name in names
        if name.startswith(("/", "~", "."))
        for path in call.paths(name)
    ):
        weight = "light"
    if not _THROWAWAY.isdisjoint(parts_of(names)):
        weight = "light"
    return call.effect("destroy-data", target, scope="remote", weight=weight, certain=UNKNOWN not in target)


class _SqlClient(msgspec.Struct, frozen=True):
    """How a client gets its SQL."""

    text: str = ""  # the options that hold it
    files: str = ""  # the options that name files of it
    values: str = ""  # further options that take a value
    operand: int = -1  # the first operand that holds it
    database: str = ""  # the options that name the database or its host


_POSTGRES: Final = _SqlClient(
    "-c --command",
    "-f --file",
    "-U --username -p --port -v --set --variable -o --output -L -F -R -P --pset -T",
    database="-d --dbname -h --host",
)
_MYSQL: Final = _SqlClient(
    "-e --execute", "", "-u --user -P --port -S --socket --default-character-set", database="-h --host -D --database"
)
_SQLITE: Final = _SqlClient("-cmd", "-init", "-separator -nullvalue -newline", operand=1)
_DUCKDB: Final = _SqlClient("-cmd -c -s", "-init -f", "-separator -nullvalue -newline", operand=1)
_HIVE: Final = _SqlClient(
    "-e -q --execute --query", "-f --file -i --queries-file", "-u -n -p", database="-h --host -d --database"
)
_CLIENTS: Final[Mapping[str, _SqlClient]] = {
    **dict.fromkeys(("psql", "ysqlsh", "vsql", "usql", "pgcli"), _POSTGRES),
    **dict.fromkeys(("mysql", "mariadb", "mycli"), _MYSQL),
    **dict.fromkeys(("sqlite3", "sqlite", "litecli"), _SQLITE),
    "duckdb": _DUCKDB,
    "sqlcmd": _SqlClient("-Q -q", "-i", "-U -P -o", database="-S -d"),
    **dict.fromkeys(("cockroach", "hive", "beeline", "spark-sql", "impala-shell", "cqlsh", "trino", "presto"), _HIVE),
    **dict.fromkeys(("clickhouse-client", "clickhouse", "clickhouse-local"), _HIVE),
    **dict.fromkeys(("snowsql", "snow"), _SqlClient("-q --query", "-f --filename", "-c -a -u -w", database="-d -h -s")),
    "influx": _SqlClient("-execute", "", "-host -port -username -password", database="-database"),
    **dict.fromkeys(("sqlplus", "isql", "db2"), _SqlClient(operand=0)),
    "cypher-shell": _SqlClient("", "-f --file", "-a -u -p", operand=0, database="-d"),
    "bq": _SqlClient("", "", "--project_id --dataset_id --location", operand=1),
    "turso": _SqlClient("", "", "", operand=3),
    "wrangler": _SqlClient("--command", "--file", "-c --config -e --env", database="--env"),
}


def _sql_client(call: Call) -> Iterator[Effect]:
    client = _CLIENTS[call.command.name]
    call = call.with_values(f"{client.text} {client.files} {client.values} {client.database}")
    values = call.options.values
    first = client.operand if client.operand >= 0 else len(call.operands)
    names = call.operands[:first]
    written = [call.command.stdin or "", *values(*client.text.split()), " ".join(call.operands[first:])]
    written += [word for word in names if " " in word]  # an option took another word for its value
    for word in (*values(*client.files.split()), *call.command.reads):
        written += [call.world.fs.read(path, LARGEST_SQL) or "" for path in call.paths(word)]
    if client in (_SQLITE, _DUCKDB) and not names:
        return  # a database in memory
    for text in written:
        yield from effects_of_sql(call, text, [*names, *values(*client.database.split())])


# ----- programs with a language of their own --------------------------------------------------------------------------

_STRINGS = re.compile(r"""'[^'\n]*'|"[^"\n]*"|//[^\n]*""")
_MONGO = re.compile(r"\.(?:dropDatabase|drop)\(\s*\)|\.(?:deleteMany|remove|deleteOne)\(\s*\{\s*\}|\.dropAllUsers\(")
_REDIS: Final = "-h -p -a -n -u -s --user --pass -r -i"


def _mongo(call: Call) -> Iterator[Effect]:
    call = call.with_values("--eval --host --port -u --username -p --password --authenticationDatabase -f --file")
    texts = [call.command.stdin or "", *call.options.values("--eval")]
    files = [
        *(word for word in call.operands if word.endswith((".js", ".mongodb"))),
        *call.options.values("-f", "--file"),
    ]
    texts += [call.world.fs.read(path) or "" for word in (*files, *call.command.reads) for path in call.paths(word)]
    for text in texts:
        found = _MONGO.search(_STRINGS.sub("''", text))
        if found:
            yield _destroy(call, found[0].strip(".({"), [*call.operands, *call.options.values("--host")])


def _redis(call: Call) -> Iterator[Effect]:
    call = call.with_values(_REDIS)
    for words in (call.operands, *(line.split() for line in (call.command.stdin or "").splitlines())):
        verb = words[0].upper() if words else ""
        scripted = verb in ("EVAL", "SCRIPT") and "flush" in " ".join(words).lower()
        many = verb in ("DEL", "UNLINK") and any(UNKNOWN in word or "*" in word for word in words)
        if verb in ("FLUSHALL", "FLUSHDB") or scripted or many:
            yield _destroy(call, verb, call.options.values("-h", "-u"))


def _http_delete(call: Call) -> Iterator[Effect]:
    """A request that deletes. On this machine it is a developer's own server."""
    call = call.with_values("-X --request --method -H --header -u --user -o --output -d --data --data-raw -A -b --json")
    methods = [*call.options.values("-X", "--request", "--method"), *call.operands[:1]]
    address = next((word for word in call.operands if "/" in word or "." in word or ":" in word), "")
    if "DELETE" in (method.upper() for method in methods) or "/_delete_by_query" in address:
        yield call.effect("destroy-data", address, scope="remote", weight="light" if is_here(address) else "normal")


def _named(call: Call) -> Iterator[Effect]:
    """dropdb and its like: a test's database is thrown away by every test run."""
    call = call.with_values("-h --host -p --port -U --username -u --user --maintenance-db -P -d --dbname")
    operands, options = call.operands, call.options
    verb = _DROPPERS[call.command.name]
    if (verb and verb not in operands) or call.has("--help"):
        return
    targets = [word for word in operands if word != verb] or [""]
    forced: Weight = "heavy" if call.has("-f", "--force") else "normal"
    yield from (_destroy(call, word, options.values("-h", "--host"), forced) for word in targets)


_DROPPERS: Final = {"dropdb": "", "dropuser": "", "pg_dropcluster": "", "mysqladmin": "drop"}

# ----- tasks of frameworks --------------------------------------------------------------------------------------------

_TASKS: Final[Mapping[str, str]] = {
    "rails rake": "db:drop db:drop:all db:reset db:purge db:truncate_all db:migrate:reset db:schema:load",
    "php artisan": "migrate:fresh migrate:reset migrate:refresh db:wipe",
    "php console symfony": "doctrine:database:drop doctrine:schema:drop d:d:d",
    "python python3 py manage.py django-admin": "flush reset_db sqlreset",
    "sequelize sequelize-cli": "db:drop db:migrate:undo:all",
    "typeorm mikro-orm": "schema:drop migration:fresh schema:fresh",
    "mix": "ecto.drop ecto.reset ash.reset",
    "flyway": "clean",
    "liquibase": "dropAll drop-all",
    "dbmate": "drop",
}
"""Programs, and the tasks of theirs that throw a database away."""

_SCRIPTS: Final = frozenset({"artisan", "manage.py", "console"})
_FORCED: Final = ("-f", "--force", "-y", "--yes", "--noinput", "--no-input", "--no-interaction")


def _task(call: Call) -> Iterator[Effect]:
    """A task of a framework; its environment is named by a variable, or by an option."""
    name, words = call.command.name, call.operands
    interpreted = name in ("php", "python", "python3", "py")
    if interpreted:
        if not words or words[0].rpartition("/")[2] not in _SCRIPTS:
            return
        words = words[1:2]
    for programs, tasks in _TASKS.items():
        found = [word for word in words if name in programs.split() and word in tasks.split()]
        if found and not call.has("--help", "--dry-run", "--pretend") and not (name == "rake" and call.has("-n")):
            environment = [value for _, value in call.options.options] + [word for word in words if "=" in word]
            weight: Weight = "heavy" if call.has(*_FORCED) else "normal"
            yield _destroy(call, found[0], environment, weight)
            return


def _row(
    words: str, needs: str = "", heavy: str = "-f --force -y --yes", values: str = "", weight: Weight = "normal"
) -> Row:
    return Row(
        words, "destroy-data", needs=needs, heavy=heavy, dry="--dry-run", values=values, weight=weight, scope="remote"
    )


ROWS: Final[tuple[Row, ...]] = (
    _row("pg_restore", "-c --clean", values="-d --dbname -h --host -U -p -F -j -n -t -T -L", heavy=""),
    _row("mongorestore", "--drop", heavy=""),
    _row("prisma migrate reset", values="--schema"),
    _row("prisma db push", "--force-reset --accept-data-loss", values="--schema"),
    _row("knex migrate:rollback", "--all -a", values="--env --knexfile"),
    _row("alembic downgrade base", values="-c --config -x"),
    _row("goose reset"),
    _row("flask db downgrade base"),
    _row("drizzle-kit push", "--force", heavy=""),
    _row("supabase db reset", heavy="--linked --db-url"),
    _row("diesel|sqlx database|db reset|drop", values="--database-url --source"),
    _row("migrate drop", values="-path -database -source"),
    _row("wp db reset|drop|clean"),
    _row("drush sql:drop|sql-drop"),
    _row("bq rm", "-r -f --recursive --force -d -t", heavy=""),
    _row("influx delete"),
    _row("influx bucket|org delete"),
    _row("kafka-topics|kafka-topics.sh", "--delete", values="--bootstrap-server --topic --zookeeper"),
    _row("etcdctl del", "--prefix --from-key --range", heavy="", values="--endpoints --cacert --cert --key --user"),
    _row("consul kv delete", "-recurse", heavy=""),
    _row("vault delete", heavy="-force"),
    _row("vault secrets disable", heavy="-force"),
    _row("vault kv destroy|delete", heavy="-force", values="-mount -versions -address -namespace"),
    _row("vault kv metadata delete", values="-mount"),
    _row("rabbitmqctl delete_queue|delete_vhost|reset|force_reset|purge_queue|delete_user", values="-n -p"),
    _row("nats stream rm|purge|delete"),
)
READERS: Final[Mapping[str, Reader]] = {
    **dict.fromkeys(_CLIENTS, _sql_client),
    **dict.fromkeys(("mongosh", "mongo"), _mongo),
    **dict.fromkeys(("redis-cli", "valkey-cli", "keydb-cli"), _redis),
    **dict.fromkeys(("curl", "http", "https", "xh", "xhs", "wget"), _http_delete),
    **dict.fromkeys(_DROPPERS, _named),
    **dict.fromkeys((name for names in _TASKS for name in names.split()), _task),
}
