import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { RunView } from '../../../protocol/run-view.ts';
import { calling, Desk, REFUND } from '../../support/cli/desk.ts';

const done = { text: 'Done.' };

test('an exported file is inspected without its database, read-only, until it is stopped', async () => {
  const desk = new Desk([calling(REFUND), done]);
  const { runId } = await desk.begin();
  await desk.run(['export', runId, '--out', 'run.json']);
  rmSync(join(desk.folder, '.agentchart'), { recursive: true });
  const started = desk.start(['inspect', 'run.json', '--json']);
  const [line = ''] = (await started.printed(`/runs/${runId}`)).split('\n');
  const { url } = JSON.parse(line) as { url: string };
  expect(await (await fetch(url)).json()).toMatchObject({
    runId,
    status: 'waiting',
  } satisfies Partial<RunView>);
  const page = await fetch(url, { headers: { accept: 'text/html' } });
  expect(page.headers.get('content-type')).toContain('text/html');
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' };
  expect((await fetch(`${url}/cancel`, init)).status).toBe(403);
  started.child.kill('SIGINT');
  expect((await started.ended).code).toBe(0);
  const wrong = await desk.run(['inspect', 'absent.json']);
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('absent.json')]);
});
