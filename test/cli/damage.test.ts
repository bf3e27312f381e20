import { mkdirSync, readFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { calling, Desk, REFUND } from '../support/cli/desk.ts';

/** Changes the database without going through a store. */
function change(file: string, sql: string): void {
  const db = new DatabaseSync(file, { enableForeignKeyConstraints: false });
  db.exec(sql);
  db.close();
}

/** Two runs that wait for the approval of a refund; the journal or the record of the second one is damaged. */
async function makeDamaged(damage: (runId: string) => string) {
  const desk = new Desk([calling(REFUND), { text: 'Done.' }]);
  const [intact, damaged] = [await desk.begin(), await desk.begin()];
  change(desk.store, damage(damaged.runId));
  return { desk, intact: intact.runId, damaged: damaged.runId, bytes: readFileSync(desk.store) };
}

describe.concurrent('a damaged run in a database of several runs', () => {
  test('is reported by run and entry, nothing is written, and the other runs can be listed, shown and resumed', async () => {
    const { desk, intact, damaged, bytes } = await makeDamaged(
      runId =>
        `UPDATE appends SET json = replace(json, '4200', '9200')
          WHERE run = (SELECT run FROM runs WHERE run_id = '${runId}')`,
    );
    const refused = await Promise.all([
      desk.run(['show', damaged]),
      desk.run(['show', damaged, '--events']),
      desk.run(['resume', damaged], desk.model),
      desk.run(['approve', damaged, 'call_0_0'], desk.model),
    ]);
    for (const { code, stdout, stderr } of refused) {
      expect([code, stdout]).toEqual([1, '']);
      expect(stderr).toContain(`"${damaged}"`);
      expect(stderr).toMatch(/entry \d+ does not match its checksum/);
      expect(stderr).toContain('backup');
    }
    const [listed, shown] = await Promise.all([desk.run(['runs']), desk.run(['show', intact])]);
    expect(listed).toMatchObject({ code: 0, stderr: '' });
    expect(listed.stdout).toContain(intact);
    expect(listed.stdout).toContain(damaged);
    expect(shown).toMatchObject({ code: 0, stderr: '' });
    expect(readFileSync(desk.store).equals(bytes)).toBe(true);
    const approved = await desk.run(['approve', intact, 'call_0_0'], desk.model);
    expect(approved.code, approved.stderr).toBe(0);
    expect((await desk.run(['show', damaged])).code).toBe(1);
  });

  test('with an invalid record is reported by the list, which still shows the other runs', async () => {
    const { desk, intact, damaged } = await makeDamaged(
      runId => `UPDATE runs SET status = 'dancing' WHERE run_id = '${runId}'`,
    );
    const listed = await desk.run(['runs']);
    expect(listed.code).toBe(1);
    expect(listed.stdout).toContain(intact);
    expect(listed.stdout).not.toContain(damaged);
    expect(listed.stderr).toContain(`"${damaged}"`);
    const shown = await desk.run(['show', intact.slice(0, -1)]);
    expect(shown.code, shown.stderr).toBe(0);
    expect((await desk.run(['show', damaged])).code).toBe(1);
  });
});

describe.concurrent('an unusable database', () => {
  test('of a newer release is rejected with advice and left unchanged', async () => {
    const { desk, intact, bytes } = await makeDamaged(() => 'PRAGMA user_version = 99');
    for (const args of [['runs'], ['show', intact], ['resume', intact]]) {
      const ended = await desk.run(args, desk.model);
      expect(ended).toMatchObject({ code: 1, stdout: '' });
      expect(ended.stderr).toContain('schema version 99');
      expect(ended.stderr).toContain('the version that wrote it');
    }
    expect(readFileSync(desk.store).equals(bytes)).toBe(true);
  });

  test('path that is a folder is reported', async () => {
    const desk = new Desk([]);
    mkdirSync(desk.path('runs.db'));
    const ended = await desk.run(['runs', '--db', 'runs.db']);
    expect(ended).toMatchObject({ code: 1, stdout: '' });
    expect(ended.stderr).toContain('runs.db cannot be opened');
  });
});
