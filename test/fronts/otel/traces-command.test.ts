import { afterAll, beforeAll, expect, test } from 'vitest';
import { calling, Desk, REFUND } from '../../support/cli/desk.ts';
import { receiveOtlp } from '../../support/fronts/otel/otlp-receiver.ts';

let receiver: Awaited<ReturnType<typeof receiveOtlp>>;

beforeAll(async () => {
  receiver = await receiveOtlp();
});
afterAll(() => receiver.close());

test('traces posts the spans of a run, with the same ids every time', async () => {
  const desk = new Desk([calling(REFUND), { text: 'done' }]);
  const { runId } = await desk.begin('--yes');
  const args = ['traces', runId, '--otlp', receiver.url, '--json'];
  const first = await desk.run(args);
  expect(first).toMatchObject({ code: 0 });
  expect(JSON.parse(first.stdout)).toMatchObject({ runId, url: `${receiver.url}/v1/traces` });
  expect(await desk.run(args)).toMatchObject({ code: 0 });
  const [once, again] = receiver.received;
  expect(once?.path).toBe('/v1/traces');
  expect(again?.body).toBe(once?.body);
  expect(once?.body).toContain('execute_tool refund');
  expect(once?.body).not.toContain('A-1');

  const printed = await desk.run(['traces', runId, '--content', '--json']);
  const spans = printed.stdout
    .trim()
    .split('\n')
    .map(line => JSON.parse(line));
  expect(spans.map(({ name }) => name)).toContain('execute_tool refund');
  expect(printed.stdout).toContain('A-1');
});

test('traces exits with 1 without a receiver, and with 2 for a bad address or an unknown run', async () => {
  const desk = new Desk([{ text: 'done' }]);
  const { runId } = await desk.begin();
  const refused = await receiveOtlp([{ status: 401, body: 'no key' }]);
  expect(await desk.run(['traces', runId, '--otlp', refused.url])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('answered 401: no key'),
  });
  refused.close();
  expect(await desk.run(['traces', runId, '--otlp', 'ftp://h'])).toMatchObject({ code: 2 });
  expect(await desk.run(['traces', 'run_none', '--otlp', receiver.url])).toMatchObject({ code: 2 });
});
