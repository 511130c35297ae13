"""What database programs destroy."""

import pytest

from billhook.effects.families.databases import destroyed, statements
from effects.cases import outcome

LOST = ["destroy-data:remote"]
FORCED = ["destroy-data:remote:heavy"]
THROWN_AWAY = ["destroy-data:remote:light"]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("DROP TABLE users", ["users"]),
        ("drop table if exists users cascade;", ["users"]),
        ('DROP TABLE "my users"', ["my_users"]),
        ("DROP DATABASE app", ["app"]),
        ("DROP SCHEMA public CASCADE; CREATE SCHEMA public", ["public"]),
        ("SELECT 1; TRUNCATE TABLE logs", ["logs"]),
        ("TRUNCATE logs", ["logs"]),
        ("DELETE FROM users", ["users"]),
        ("DELETE FROM users WHERE 1=1", ["users"]),
        ("DELETE FROM users WHERE true;", ["users"]),
        ("DELETE FROM users WHERE 'a'='a'", ["users"]),
        ("UPDATE users SET admin = 1", ["users"]),
        ("ALTER TABLE users DROP COLUMN email", ["users"]),
        ("ALTER TABLE users DROP email", ["users"]),
        ("DRO/**/P; /*!50000 DROP TABLE users */", ["users"]),
        ("BEGIN; DELETE FROM users; COMMIT", ["users"]),
        ("WITH old AS (SELECT 1) DELETE FROM users", ["users"]),
        ("/* a */ DROP /* b */ TABLE users", ["users"]),
        ("-- note\nDROP TABLE users", ["users"]),
        ("# note\nDROP TABLE users", ["users"]),
        ("USE app\nGO\nDROP TABLE users\nGO", ["users"]),
        # harmless
        ("SELECT * FROM users", []),
        ("SELECT 'DROP TABLE users;'", []),
        ("SELECT 'it''s; DROP TABLE users'", []),
        ("INSERT INTO log VALUES ('; DELETE FROM users')", []),
        ("-- DROP TABLE users", []),
        ("/* DROP TABLE users; */ SELECT 1", []),
        ("DELETE FROM users WHERE id = 3", []),
        ("UPDATE users SET a = 1 WHERE id = 3", []),
        ("ALTER TABLE users ADD COLUMN email text", []),
        ("ALTER TABLE users DROP CONSTRAINT users_fk", []),
        ("ALTER TABLE users ALTER COLUMN a DROP NOT NULL", []),
        ("DROP INDEX users_email", []),
        ("DROP VIEW recent", []),
        ("CREATE TABLE a (b int REFERENCES c ON DELETE CASCADE)", []),
        ("INSERT INTO a VALUES (1) ON CONFLICT DO UPDATE SET b = 1", []),
        ("SELECT * FROM jobs FOR UPDATE", []),
        ("GRANT DELETE, TRUNCATE ON users TO me", []),
        ("EXPLAIN DELETE FROM users", []),
        ("SELECT a AS drop_table FROM truncate_log", []),
        ("DROP", []),
        ("", []),
    ],
)
def test_sql(sql: str, expected: list[str]) -> None:
    assert [name for words in statements(sql) if (name := destroyed(words)) is not None] == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("psql -c 'DROP TABLE users'", LOST),
        ("psql -h db.prod.example.com -d app -c 'DROP TABLE users'", FORCED),
        ("psql postgres://me@db/app_test -c 'DROP TABLE users'", THROWN_AWAY),
        ("psql app -f drop.sql", LOST),
        ("psql -d app -c 'select 1' -c 'TRUNCATE a'", LOST),
        ("mysql -uroot -pmonth -e 'DROP DATABASE app'", LOST),
        ("mysql app --execute='DELETE FROM users'", LOST),
        ("sqlite3 app.db 'DROP TABLE users'", LOST),
        ("sqlite3 /tmp/app.db 'DROP TABLE users'", THROWN_AWAY),
        ("sqlite3 -header -csv app.db 'DELETE FROM users;'", LOST),
        ("duckdb app.db -c 'DROP TABLE users'", LOST),
        ("sqlcmd -S host -Q 'DROP TABLE users'", LOST),
        ("cockroach sql -e 'DROP TABLE users'", LOST),
        ("clickhouse-client -q 'TRUNCATE TABLE logs'", LOST),
        ("bq query 'DELETE FROM a.b WHERE true'", LOST),
        ("bq rm -r -f app", LOST),
        ("snowsql -q 'DROP DATABASE app'", LOST),
        ("cypher-shell 'MATCH (n) DETACH DELETE n'", LOST),
        ("wrangler d1 execute app --command 'DROP TABLE users'", LOST),
        ("dropdb app", LOST),
        ("dropdb production", FORCED),
        ("dropdb --if-exists test_app", THROWN_AWAY),
        ("dropdb -f app", FORCED),
        ("mysqladmin -u root drop app", LOST),
        ("mongosh app --eval 'db.dropDatabase()'", LOST),
        ("mongosh --eval 'db.users.deleteMany({})'", LOST),
        ("mongo --eval 'db.getCollection(\"users\").drop()'", LOST),
        ("redis-cli FLUSHALL", LOST),
        ("redis-cli -h cache -n 2 flushdb", LOST),
        ("redis-cli del $?", LOST),
        ("pg_restore --clean -d app dump", LOST),
        ("rails db:drop", LOST),
        ("rails db:reset RAILS_ENV=production", FORCED),
        ("rake db:drop db:create", LOST),
        ("php artisan migrate:fresh --seed", LOST),
        ("php artisan migrate:fresh --env=testing", THROWN_AWAY),
        ("php artisan db:wipe --force", FORCED),
        ("python manage.py flush", LOST),
        ("manage.py flush --noinput", FORCED),
        ("prisma migrate reset", LOST),
        ("prisma migrate reset --force", FORCED),
        ("prisma db push --accept-data-loss", LOST),
        ("sequelize db:drop", LOST),
        ("knex migrate:rollback --all", LOST),
        ("alembic downgrade base", LOST),
        ("supabase db reset", LOST),
        ("curl -XDELETE https://es.example.com/_all", LOST),
        ("curl -X DELETE http://localhost:3000/logs", THROWN_AWAY),
        ("curl -X DELETE http://localhost:9200/logs", LOST),
        ("curl --request DELETE https://api.example.com/users/3", LOST),
        ("http DELETE https://api.example.com/users/3", LOST),
        ("kafka-topics.sh --bootstrap-server k:9092 --delete --topic a", LOST),
        ("etcdctl del --prefix /app", LOST),
        ("consul kv delete -recurse app", LOST),
        ("vault kv destroy -versions=2 secret/app", LOST),
        # harmless
        ("psql -l", []),
        ("psql app -c 'SELECT * FROM users'", []),
        ("psql app -c \"SELECT 'DROP TABLE users'\"", []),
        ("psql app -f schema.sql", []),
        ("psql app -c 'DELETE FROM users WHERE id = 3'", []),
        ("mysql -e 'SHOW DATABASES'", []),
        ("sqlite3 app.db .tables", []),
        ("sqlite3 app.db 'SELECT count(*) FROM users'", []),
        ("duckdb -c 'CREATE TABLE a (b int); DROP TABLE a'", []),
        ("mysqladmin status", []),
        ("mysqldump app", []),
        ("pg_dump --clean app", []),
        ("pg_restore -d app dump", []),
        ("createdb app", []),
        ("mongosh --eval 'db.users.find({})'", []),
        ("mongosh --eval 'db.users.deleteMany({age: 3})'", []),
        ("mongosh --eval 'print(\"db.dropDatabase()\")'", []),
        ("redis-cli get flushall", []),
        ("redis-cli del session:3", []),
        ("redis-cli keys '*'", []),
        ("rails db:migrate", []),
        ("rails generate model drop", []),
        ("rake -n db:drop", []),
        ("php artisan migrate", []),
        ("python manage.py migrate", []),
        ("python flush.py flush", []),
        ("prisma migrate dev", []),
        ("prisma db push", []),
        ("knex migrate:rollback", []),
        ("alembic downgrade -1", []),
        ("alembic upgrade head", []),
        ("curl https://api.example.com/delete", []),
        ("curl -X POST http://localhost:3000/DELETE", []),
        ("kafka-topics.sh --list", []),
        ("etcdctl get --prefix /app", []),
        ("consul kv delete app/one", []),
        ("vault kv get secret/app", []),
        ("bq query 'SELECT 1'", []),
    ],
)
def test_programs(line: str, expected: list[str]) -> None:
    files = {"/home/me/proj/drop.sql": "DROP TABLE a;\n", "/home/me/proj/schema.sql": "CREATE TABLE drop_a (b int);\n"}
    assert outcome(line, files=files) == expected


def test_standard_input() -> None:
    """A here-document, and a file that is redirected."""
    assert outcome("psql app", stdin="SELECT 1;\nDROP TABLE users;\n") == LOST
    assert outcome("mysql app", reads=("x.sql",), files={"/home/me/proj/x.sql": "TRUNCATE a"}) == LOST
    assert outcome("redis-cli", stdin="FLUSHALL\n") == LOST
    assert outcome("psql app", stdin="SELECT 'DROP TABLE users';\n") == []
    assert outcome("rails db:drop", assignments=("RAILS_ENV=test",)) == THROWN_AWAY


def test_large_texts_are_cut() -> None:
    """SQL is read up to a bound, in one pass."""
    assert len(list(statements("SELECT '" + "a" * 1_000_000))) == 1
    assert len(list(statements("/* " * 500_000))) == 0


def test_sql_that_is_too_long_is_opaque() -> None:
    """Its end is not read."""
    assert outcome("psql", stdin="select 1;\n" * 30_000 + "drop table x") == ["run-opaque:unknown"]
    assert outcome("psql", stdin="select 1;\n" * 3_000 + "drop table x") == LOST
