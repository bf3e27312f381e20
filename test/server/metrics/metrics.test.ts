import { describe, expect, test } from 'vitest';
import { Counter, Durations } from '../../../server/metrics/prometheus.ts';
import { DONE, makeApp, REFUND } from '../../support/server/runs-app.ts';

const TOKEN = 'correct-horse-battery-staple';
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

type Sample = { name: string; labels: Record<string, string>; value: number };

/** Reads the text format strictly: every sample belongs to a family that was described before it. */
function parse(text: string): Sample[] {
  expect(text.endsWith('\n')).toBe(true);
  const families = new Map<string, string>();
  return text
    .trim()
    .split('\n')
    .flatMap(line => {
      const type = /^# TYPE (\w+) (gauge|counter|histogram)$/.exec(line);
      if (type) families.set(type[1] ?? '', type[2] ?? '');
      if (line.startsWith('#')) return [];
      const [, name = '', pairs = '', value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
      const family = name.replace(/_(bucket|sum|count)$/, '');
      expect([...families.keys()]).toContain(families.has(name) ? name : family);
      const labels = [...pairs.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, text]) => [key, text]);
      return [{ name, labels: Object.fromEntries(labels), value: Number(value) }];
    });
}

function sumOf(samples: readonly Sample[], name: string, labels: Record<string, string> = {}): number {
  const fits = (sample: Sample) =>
    Object.entries(labels).every(([key, value]) => sample.labels[key] === value);
  return samples
    .filter(sample => sample.name === name && fits(sample))
    .reduce((sum, { value }) => sum + value, 0);
}

describe('GET /metrics', () => {
  test('counts an answer under review as a decision that waits', async () => {
    const guardrails = { answer: () => ({ type: 'ask' as const, reason: 'a price' }) };
    const { send, begin } = makeApp({ turns: [DONE], agent: { guardrails } });
    await begin();
    const waiting = parse(await (await send('GET', '/metrics')).text());
    expect(sumOf(waiting, 'agentchart_decisions_waiting', { type: 'review' })).toBe(1);
    expect(sumOf(waiting, 'agentchart_decisions_waiting')).toBe(1);
  });

  test('counts runs by status, decisions that wait, durations and tokens', async () => {
    const usage = { inputTokens: 10, outputTokens: 4 };
    const { send, begin, rest } = makeApp({
      turns: [
        { ...REFUND, usage },
        { ...DONE, usage },
      ],
    });
    const metrics = async () => parse(await (await send('GET', '/metrics')).text());
    const { runId } = await begin();
    const waiting = await metrics();
    expect(sumOf(waiting, 'agentchart_runs', { status: 'waiting' })).toBe(1);
    expect(sumOf(waiting, 'agentchart_decisions_waiting', { type: 'approval' })).toBe(1);
    expect(sumOf(waiting, 'agentchart_tokens_total', { type: 'input' })).toBe(10);
    await send('POST', `/runs/${runId}/approve`, { callId: 'call_0_0' });
    await rest(runId);
    const done = await metrics();
    expect(sumOf(done, 'agentchart_runs', { status: 'finished' })).toBe(1);
    expect(sumOf(done, 'agentchart_runs')).toBe(1);
    expect(sumOf(done, 'agentchart_decisions_waiting')).toBe(0);
    expect(sumOf(done, 'agentchart_model_call_duration_seconds_count')).toBe(2);
    expect(sumOf(done, 'agentchart_tool_call_duration_seconds_count', { outcome: 'completed' })).toBe(1);
    expect(sumOf(done, 'agentchart_tokens_total', { type: 'output' })).toBe(8);
    expect(JSON.stringify(done)).not.toContain('A-1');
  });

  test('is for tokens that may read all runs', async () => {
    const tokens = {
      watcher: { token: 'viewer-token-1234567890', role: 'viewer' },
      tenant: { token: 'tenant-token-1234567890', role: 'viewer', labels: { tenant: 'a' } },
      app: { token: 'client-token-1234567890', role: 'client' },
    } as const;
    const { send } = makeApp({ token: TOKEN, tokens: tokens as never });
    const statusOf = async (headers?: Record<string, string>) =>
      (await send('GET', '/metrics', undefined, headers)).status;
    expect(await statusOf()).toBe(401);
    expect(await statusOf(bearer(TOKEN))).toBe(200);
    expect(await statusOf(bearer(tokens.watcher.token))).toBe(200);
    expect(await statusOf(bearer(tokens.tenant.token))).toBe(403);
    expect(await statusOf(bearer(tokens.app.token))).toBe(403);
  });
});

describe('a metric', () => {
  test('has a bounded number of label sets, and escapes their values', () => {
    const counter = new Counter();
    for (let index = 0; index < 150; index += 1) counter.add({ model: `m${index}` }, 1);
    const samples = parse(`${counter.describe('tokens_total', 'Tokens.').join('\n')}\n`);
    expect(samples).toHaveLength(101);
    expect(sumOf(samples, 'tokens_total', { model: 'other' })).toBe(50);
    const named = new Counter();
    named.add({ model: 'a"b\\c\nd' }, 1);
    expect(named.describe('x', 'X.').at(-1)).toBe('x{model="a\\"b\\\\c\\nd"} 1');
  });

  test('of durations has cumulative buckets, a sum and a count', () => {
    const durations = new Durations();
    for (const ms of [5, 400, 1_000_000]) durations.add({}, ms);
    const samples = parse(`${durations.describe('seconds', 'Seconds.').join('\n')}\n`);
    const at = (le: string) => sumOf(samples, 'seconds_bucket', { le });
    expect([at('0.01'), at('0.5'), at('300'), at('+Inf')]).toEqual([1, 2, 2, 3]);
    expect([sumOf(samples, 'seconds_sum'), sumOf(samples, 'seconds_count')]).toEqual([1000.405, 3]);
  });
});
