import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { sqlite } from '../../../stores/sqlite.ts';
import { errorOf, makeApp, until } from '../../support/server/runs-app.ts';
import { makeFile } from '../../support/stores/make-file.ts';

/** A later app over a file with two resting runs. `damage` changed the second run directly in the file. */
async function makeDamaged(damage: string) {
  const file = makeFile();
  const first = makeApp({ store: sqlite(file) });
  const [whole, damaged] = [await first.begin(), await first.begin()];
  await until(async () => ((await first.store.get(damaged.runId))?.owner === undefined ? true : undefined));
  const db = new DatabaseSync(file);
  db.prepare(damage).run(damaged.runId);
  db.close();
  const app = makeApp({ store: sqlite(file) });
  return { ...app, whole: whole.runId, damaged: damaged.runId };
}

test('a run with an invalid record is listed apart from the other runs, and is not picked up', async () => {
  const { app, send, log, view, whole, damaged } = await makeDamaged(
    `UPDATE runs SET owner = '{', lease_until = 1 WHERE run_id = ?`,
  );
  const listed: unknown = await (await send('GET', '/runs')).json();
  expect(listed).toMatchObject({
    runs: [{ runId: whole }],
    damaged: [expect.stringContaining(`"${damaged}"`)],
  });
  expect((await view(whole)).status).toBe('waiting');
  expect(await errorOf(await send('GET', `/runs/${damaged}`))).toMatchObject({ code: 'store-damaged' });
  await app.pickUp();
  await until(() => log.find(line => line.includes(damaged)));
});

test('a run with a damaged journal is refused with its id and entry, and the others continue', async () => {
  const { send, rest, whole, damaged } = await makeDamaged(
    `UPDATE appends SET json = replace(json, '4200', '9200')
      WHERE run = (SELECT run FROM runs WHERE run_id = ?)`,
  );
  const error = await errorOf(await send('POST', `/runs/${damaged}/approve`, { callId: 'call_0_0' }));
  expect(error.code).toBe('journal-damaged');
  expect(error.message).toMatch(new RegExp(`"${damaged}".* entry \\d+ `));
  expect((await send('POST', `/runs/${whole}/approve`, { callId: 'call_0_0' })).status).toBe(200);
  expect((await rest(whole)).status).toBe('finished');
});
