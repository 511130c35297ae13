"""Databases: SQL that destroys data, wherever a client gets it from, and the programs that drop data themselves."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

import msgspec

from billhook.effects.effect import UNKNOWN, Effect, Weight
from billhook.effects.families.network import is_here
from billhook.effects.table import Call, Reader, Row, word_set

LARGEST_SQL: Final = 256 * 1024

# ----- SQL ------------------------------------------------------------------------------------------------------------

_SQL = re.compile(
    r"""
    (?P<run>     /\*!\d* )                           # MySQL runs what such a comment holds
  | (?P<comment> --[^\n]* | /\*.*?(?:\*/|\Z) | ^[ \t]*\#[^\n]* )
  | (?P<text>    '[^']*(?:'|\Z) | (?P<tag>\$(?:[A-Za-z_]\w*)?\$).*?(?:(?P=tag)|\Z) )
  | (?P<name>    "[^"]*(?:"|\Z) | `[^`]*(?:`|\Z) | \[[^\]\n;]*\] )
  | (?P<end>     ; | \\[gG] | ^GO[ \t]*$ )
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_BEFORE: Final = frozenset({"BEGIN", "THEN", "ELSE", "LOOP"})
_DROPPED: Final = word_set(
    "DATABASE MEASUREMENT SCHEMA TABLE USER ROLE EXTENSION TABLESPACE KEYSPACE OWNED DATASET COLLECTION BUCKET SERIES "
    "WAREHOUSE MATERIALIZED LOGIN PUBLICATION SUBSCRIPTION SERVER"
)
_ACCESS: Final = word_set("PASSWORD IDENTIFIED SUPERUSER CREATEROLE DISABLE")
_NO_NAMES: Final = word_set("IF EXISTS TABLE ONLY FROM CASCADE PURGE")
_KEPT_COLUMNS: Final = word_set("CONSTRAINT INDEX KEY PRIMARY FOREIGN DEFAULT NOT IDENTITY EXPRESSION CHECK")
_ALWAYS = re.compile(r"(?:\(*(?:1|TRUE|NOTFALSE|ID(?:>=?0|ISNOTNULL)|(\w+)=\1)\)*)(?:(?:RETURNING|OR).*)?")


def _replaced(found: re.Match[str]) -> str:
    if found.lastgroup == "name":
        return re.sub(r"\W", "_", found[0][1:].rstrip('"`]'))
    return {"text": " s ", "end": ";"}.get(found.lastgroup or "", " ")


_CODE = re.compile(
    r"\b(?:DO|EXEC(?:UTE)?(?:\s+IMMEDIATE)?|sp_executesql|PREPARE\s+\w+\s+FROM)\s*(?:LANGUAGE\s+\w+\s*)?"
    r"\(?\s*(?:format\s*\(\s*)?[NE]?('|\$(?:[A-Za-z_]\w*)?\$|\0)",
    re.IGNORECASE,
)
"""What begins a string that is run: `DO $$ ...`, `EXECUTE 'DROP TABLE x'`."""
_MOST_CODE: Final = 16


def _code(text: str) -> Iterator[str]:
    """The strings in SQL that are SQL as well; a shell may have put its number in place of `$$`."""
    for found in islice(_CODE.finditer(text), _MOST_CODE):
        end = text.find(found[1], found.end())
        yield text[found.end() : end if end >= 0 else len(text)]


def statements(text: str) -> Iterator[list[str]]:
    """The words of each statement, upper case, without comments; a string is `S`."""
    text = text[:LARGEST_SQL]
    lexed = (_SQL.sub(_replaced, each) for each in (text, *_code(text)))
    for statement in ";".join(lexed).upper().split(";"):
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
    if verb == "ALTER" and rest[:1] == ["TABLE"] and (_drops_column(rest) or _deletes_all(rest)):
        return _name(rest)
    if words[:2] in (["REMOVE", "TABLE"], ["REMOVE", "DATABASE"]):
        return _name(rest[1:])
    if words[:2] in (["RESET", "MASTER"], ["PURGE", "BINARY"]):
        return "binary logs"
    cypher = verb == "MATCH" and "DELETE" in rest and _is_everywhere(rest)
    return "nodes" if cypher else None


def _changes_access(words: list[str]) -> bool:
    """Whether a statement takes rights away, or changes a password or the rights of a user."""
    users = words[:2] in (["ALTER", "USER"], ["ALTER", "ROLE"], ["ALTER", "LOGIN"])
    rows = words[:2] == ["ALTER", "TABLE"] and words[-3:] == ["ROW", "LEVEL", "SECURITY"]
    return words[0] == "REVOKE" or words[:2] == ["SET", "PASSWORD"] or ((users or rows) and bool(_ACCESS & {*words}))


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


def _deletes_all(words: list[str]) -> bool:
    """`ALTER TABLE t DELETE WHERE 1`, as ClickHouse has it."""
    return "DELETE" in words[2:3] and _is_everywhere(words)


def effects_of_sql(call: Call, text: str, database: Iterable[str] = ()) -> Iterator[Effect]:
    """What SQL text destroys in a database, which is given by names, hosts or paths."""
    names = [word for word in database if word]
    if len(text) > LARGEST_SQL:
        yield call.effect("run-opaque", certain=False, why="the SQL is too long to be read")
    for words in statements(text):
        target = destroyed(words)
        if target is not None:
            yield _destroy(call, target or words[0].lower(), names)
        elif _changes_access(words):
            weight: Weight = "light" if call.is_throwaway(names) else "normal"
            yield call.effect("permissions", " ".join(words[:3]).lower(), scope="remote", weight=weight)


def _destroy(call: Call, target: str, names: Iterable[str] = ()) -> Effect:
    weight: Weight = "light" if call.is_throwaway([target, *names]) else "normal"
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
    **dict.fromkeys(("sqlcmd", "osql"), _SqlClient("-Q -q", "-i", "-U -P -o", database="-S -d")),
    **dict.fromkeys(("cockroach", "hive", "beeline", "spark-sql", "impala-shell", "cqlsh", "trino", "presto"), _HIVE),
    **dict.fromkeys(("clickhouse-client", "clickhouse", "clickhouse-local"), _HIVE),
    **dict.fromkeys(("snowsql", "snow"), _SqlClient("-q --query", "-f --filename", "-c -a -u -w", database="-d -h -s")),
    "influx": _SqlClient("-execute", "", "-host -port -username -password", database="-database"),
    **dict.fromkeys(("sqlplus", "isql", "db2"), _SqlClient(operand=0)),
    "cypher-shell": _SqlClient("", "-f --file", "-a -u -p", operand=0, database="-d"),
    "bq": _SqlClient("", "", "--project_id --dataset_id --location", operand=1),
    "prisma": _SqlClient("", "--file", "--schema --url", database="--url"),
    "surreal": _SqlClient("", "", "-e -u -p --conn --user --pass --ns --db"),
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


def _framework(call: Call) -> Iterator[Effect]:
    """`manage.py dbshell` and `rails dbconsole` hand what they read to the client of the database."""
    if {"dbshell", "dbconsole"}.intersection(call.operands[:2]):
        yield from effects_of_sql(call, call.command.stdin or "")


# ----- programs with a language of their own --------------------------------------------------------------------------

_STRINGS = re.compile(r"""'[^'\n]*'|"[^"\n]*"|//[^\n]*""")
_MONGO = re.compile(
    r"\._?(?:dropDatabase|drop|dropUser|dropAllUsers|shutdownServer)\(|\{\s*(?:dropDatabase|drop|shutdown)\s*:"
    r"|\.(?:deleteMany|remove|deleteOne|updateMany)\(\s*\{\s*\}"
)
_MONGO_TEXTS: Final = "--eval --javascript.execute-string"
_INDEXED = re.compile(r"""\[['"](\w+)['"]\]""")  # `db["dropDatabase"]()`
_REDIS: Final = "-h -p -a -n -u -s --user --pass -r -i"
_REDIS_LOSSES: Final = (
    "FLUSHALL ", "FLUSHDB ", "FLUSH_ALL ", "SHUTDOWN ", "REPLICAOF ", "SLAVEOF ", "CLUSTER RESET ", "MODULE LOAD ",
    "DEBUG SEGFAULT ", "CONFIG SET DIR ", "CONFIG SET DBFILENAME ", "CONFIG SET SAVE ", "CONFIG SET APPENDONLY NO ",
    "CONFIG SET REQUIREPASS ", "FUNCTION FLUSH ", "ACL DELUSER ",
)  # fmt: skip
"""What empties a server, ends it, takes another one's data, or lets it write files where they run."""


def _mongo(call: Call) -> Iterator[Effect]:
    call = call.with_values(
        f"{_MONGO_TEXTS} --host --port -u --username -p --password --authenticationDatabase -f --file"
    )
    texts = [call.command.stdin or "", *call.values(_MONGO_TEXTS)]
    files = [
        *(word for word in call.operands if word.endswith((".js", ".mongodb"))),
        *call.options.values("-f", "--file"),
    ]
    texts += [call.world.fs.read(path) or "" for word in (*files, *call.command.reads) for path in call.paths(word)]
    for text in texts:
        found = _MONGO.search(_STRINGS.sub("''", _INDEXED.sub(r".\1", text)))
        if found:
            yield _destroy(call, found[0].strip(".({"), [*call.operands, *call.options.values("--host")])


def _redis(call: Call) -> Iterator[Effect]:
    call = call.with_values(_REDIS)
    for words in (call.operands, *(line.split() for line in (call.command.stdin or "").splitlines())):
        verb = words[0].upper() if words else ""
        line = " ".join([*words, ""]).upper()
        scripted = verb == "EVAL" and "FLUSH" in line
        many = verb in ("DEL", "UNLINK") and any(UNKNOWN in word or "*" in word for word in words)
        lost = line.startswith(_REDIS_LOSSES) and not line.endswith(" NO ONE ")
        if lost or scripted or many:
            yield _destroy(call, verb, call.options.values("-h", "-u"))


_DATABASE_PORT = re.compile(r":(?:9200|5984|6333|8086|8983|7700|8108|8529)(?:/|$)")
"""Elasticsearch, CouchDB, Qdrant, InfluxDB, Solr, Meilisearch, Typesense, ArangoDB"""
_DELETING: Final = (
    "/_delete_by_query", "/tsdb/delete_series", "/doDelete", "/doWipeOutWorkspace", "action=DELETE", "deleteIndex=true",
)  # fmt: skip


def _http_delete(call: Call) -> Iterator[Effect]:
    """A request that deletes. On this machine it is a developer's own server, unless a database listens there."""
    call = call.with_values("-X --request --method -H --header -u --user -o --output -d --data --data-raw -A -b --json")
    methods = [*call.options.values("-X", "--request", "--method"), *call.operands[:1]]
    address = next((word for word in call.operands if "/" in word or "." in word or ":" in word), "")
    deletes = any(part in address for part in _DELETING)
    if deletes or "DELETE" in (method.upper() for method in methods):
        own = (is_here(address) or address.startswith((":", "/"))) and _DATABASE_PORT.search(address) is None
        yield call.effect("destroy-data", address, scope="remote", weight="light" if own else "normal")


# ----- programs that drop a database by a task or by its name ---------------------------------------------------------

_KAFKA: Final = "--bootstrap-server --group --topic --to-offset --to-datetime --shift-by"
_RAILS: Final = "db:drop db:drop:all db:reset db:purge db:truncate_all db:migrate:reset db:schema:load db:seed:replant"
_FORCED: Final = "-f --force -y --yes --noinput --no-input --no-interaction"
_PRINTED: Final = "--dry-run --pretend --dump --dump-sql"
_SERVER: Final = "-h --host -p --port -U --username -u --user --maintenance-db -P -d --dbname"


def _task(words: str, needs: str = "", values: str = "", dry: str = _PRINTED) -> Row:
    return Row(
        words, "destroy-data", "all", needs=needs, heavy=_FORCED, dry=dry, values=values, throwaway=True, scope="remote"
    )


def _row(
    words: str, needs: str = "", heavy: str = "-f --force -y --yes", values: str = "", dry: str = "--dry-run"
) -> Row:
    return Row(words, "destroy-data", needs=needs, heavy=heavy, dry=dry, values=values, scope="remote")


ROWS: Final[tuple[Row, ...]] = (
    _task("dropdb|dropuser|pg_dropcluster", values=_SERVER),
    _task("mysqladmin drop", values=_SERVER),
    _task("rails", _RAILS),
    _task("rake", _RAILS, dry="-n --dry-run"),
    _task("php *artisan migrate:fresh|migrate:reset|migrate:refresh|db:wipe"),
    _task("artisan migrate:fresh|migrate:reset|migrate:refresh|db:wipe"),
    _task("php *console doctrine:database:drop|doctrine:schema:drop|d:d:d"),
    _task("console doctrine:database:drop|doctrine:schema:drop|d:d:d"),
    _task("symfony console doctrine:database:drop|doctrine:schema:drop|d:d:d"),
    _task("python|python3|py *manage.py flush|reset_db|sqlreset"),
    _task("manage.py|django-admin|django flush|reset_db|sqlreset"),
    _task("sequelize|sequelize-cli", "db:drop db:migrate:undo:all db:seed:undo:all"),
    _task(
        "typeorm|typeorm-ts-node-commonjs|typeorm-ts-node-esm|mikro-orm",
        "schema:drop schema:sync migration:fresh schema:fresh",
    ),
    _task("mix ecto.drop|ecto.reset|ash.reset"),
    _task("flyway", "clean undo"),
    _task("liquibase", "dropAll drop-all rollback rollback-count rollback-to-date", dry="*-sql"),
    _task("sqitch revert|rebase", values="-t --target --to --to-change"),
    _task("celery|rq", "purge empty"),
    _task("dbmate", "drop"),
    _row("mvn|mvnw", "flyway:clean liquibase:dropAll"),
    _row("gradle|gradlew", "flywayClean dropAll"),
    _row("pg_restore", "-c --clean", values="-d --dbname -h --host -U -p -F -j -n -t -T -L", heavy=""),
    _row("pg_resetwal|pg_resetxlog", heavy="", dry="-n --dry-run"),
    Row("mysqladmin shutdown", "kill", values="-u --user -h --host -P --port", scope="remote"),
    _row("pgbackrest stanza-delete"),
    _row("wal-g delete", "--confirm", heavy=""),
    _row("mongorestore", "--drop", heavy=""),
    _row("nodetool decommission|removenode|assassinate|clearsnapshot", values="-h -p -u -pw", heavy=""),
    _row("prisma migrate reset", values="--schema"),
    _row("prisma db push", "--force-reset --accept-data-loss", values="--schema"),
    _row("knex migrate:rollback", "--all -a", values="--env --knexfile"),
    _row("alembic downgrade base", values="-c --config -x", dry="--sql"),
    _row("python|python3|py *manage.py migrate * zero", dry="--plan"),
    _row("manage.py|django-admin migrate * zero", dry="--plan"),
    _row("goose reset|down-to", values="-dir -table"),
    _row("goose * * reset|down-to", values="-dir -table"),
    _row("mix ecto.rollback", "--all", heavy=""),
    _row("dbt run|build|seed", "--full-refresh -f", heavy=""),
    _row("diesel migration revert|redo", "-a --all", heavy=""),
    _row("dotnet ef database update 0", values="-p --project -s --startup-project -c --context"),
    _row("piccolo migrations backwards all *"),
    _row("skeema push", "--allow-unsafe", heavy=""),
    _row("atlas schema apply", "--auto-approve", heavy="", values="-u --url -t --to"),
    _row("convex import", "--replace --replace-all", heavy="-y"),
    _row("dvc gc", "-w -a -T --workspace --all-branches", heavy="-f"),
    _row("git-annex drop|dropunused", "--force", heavy=""),
    _row("couchbase-cli bucket-flush", heavy="--force", values="-c -u -p --bucket"),
    _row("atlas schema clean", heavy="--auto-approve", values="-u --url"),
    _row("flask db downgrade base"),
    _row("drizzle-kit push", "--force", heavy=""),
    _row("supabase db reset", heavy="--linked --db-url"),
    _row("diesel|sqlx database|db reset|drop", values="--database-url --source"),
    _row("migrate drop", values="-path -database -source"),
    _row("migrate down", "-all", heavy="", values="-path -database -source"),
    _row("supabase stop", "--no-backup", heavy=""),
    _row("pt-archiver", "--purge", heavy="", values="--source --where --dest"),
    _row("wp db|site reset|drop|clean|empty|delete"),
    _row("wp post|user|term|comment delete"),
    _row("dbt run-operation *drop*|*delete*|*truncate*", values="--args --target -t --profile"),
    _row("airflow db reset|clean"),
    _row("mysqlimport", "--delete", values=_SERVER),
    _row("drush sql:drop|sql-drop"),
    _row("bq rm", "-r -f --recursive --force -d -t", heavy=""),
    _row("influx delete"),
    _row("influx bucket|org delete"),
    _row("kafka-topics|kafka-topics.sh", "--delete", values="--bootstrap-server --topic --zookeeper"),
    _row("kafka-consumer-groups|kafka-consumer-groups.sh", "--delete", values="--bootstrap-server --group"),
    _row("kafka-consumer-groups|kafka-consumer-groups.sh", "--reset-offsets & --execute", values=_KAFKA),
    _row("kafka-acls|kafka-acls.sh", "--remove", values="--bootstrap-server --topic --group --operation"),
    _row("kafka-configs|kafka-configs.sh", "--delete-config", values="--bootstrap-server --delete-config"),
    _row("kafka-configs|kafka-configs.sh", "--add-config=retention*", values="--bootstrap-server --add-config"),
    _row("kafka-delete-records|kafka-delete-records.sh", values="--bootstrap-server --offset-json-file"),
    _row("etcdctl member remove", heavy=""),
    _row("etcdctl del", "--prefix --from-key --range", heavy="", values="--endpoints --cacert --cert --key --user"),
    _row("consul kv delete", "-recurse", heavy=""),
    _row("vault delete", heavy="-force"),
    _row("vault secrets disable", heavy="-force"),
    _row("vault kv destroy|delete", heavy="-force", values="-mount -versions -address -namespace"),
    _row("vault kv metadata delete", values="-mount"),
    _row("rabbitmqctl delete_*|reset|force_reset|purge_queue|clear_*|forget_*|stop_app", values="-n -p"),
    _row("nats stream|kv|consumer|object|bucket rm|del|delete|purge"),
    _row("dotnet ef database drop", values="-p --project -s --startup-project -c --context"),
    _row("neo4j-admin database delete"),
    _row("hdfs|hadoop dfs|fs", "-rm -rmr -expunge", heavy="-skipTrash"),
    _row("zkCli|zkCli.sh|zkcli deleteall|rmr", values="-server"),
    _row("memcached-tool * flush_all"),
    _row("hasura migrate delete", "--all"),
    _row("hasura metadata clear"),
    Row("pg_ctl stop", "kill", needs="-m=i* --mode=i*", values="-m --mode -D -l", scope="unknown"),
)
READERS: Final[Mapping[str, Reader]] = {
    **dict.fromkeys(_CLIENTS, _sql_client),
    **dict.fromkeys(("python", "python3", "manage.py", "django-admin", "rails"), _framework),
    **dict.fromkeys(("mongosh", "mongo", "arangosh"), _mongo),
    **dict.fromkeys(("redis-cli", "valkey-cli", "keydb-cli", "nc", "ncat", "netcat"), _redis),
    **dict.fromkeys(("curl", "http", "https", "xh", "xhs", "wget"), _http_delete),
}
