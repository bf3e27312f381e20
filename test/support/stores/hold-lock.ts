import { DatabaseSync } from 'node:sqlite';

/** A process for the tests: `FILE` takes its write lock, prints `locked`, and releases it when stdin ends. */
const db = new DatabaseSync(process.argv[2] ?? '', { timeout: 60_000 });
db.exec('BEGIN IMMEDIATE');
process.stdout.write('locked\n');
process.stdin.resume().once('end', () => {
  db.exec('COMMIT');
  db.close();
});
