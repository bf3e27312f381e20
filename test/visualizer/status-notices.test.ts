import { expect, test } from 'vitest';
import type { JsonOpenCall, RunView } from '../../protocol/run-view.ts';
import { statusNotices } from '../../visualizer/page/model/status-notices.ts';

const open = (runId: string, name: string) =>
  ({ kind: 'approval', runId, callId: 'call_0_0', name }) as JsonOpenCall;

function waiting(all: JsonOpenCall[]): RunView {
  const settled = { status: 'waiting' };
  const run = {
    runId: 'parent',
    status: 'waiting',
    agent: 'boss',
    open: all,
    calls: [],
    paused: false,
    driver: null,
  };
  return { ...run, settled, next: null, availableAgent: true } as unknown as RunView;
}

test('two sub-agents that wait for the same share one notice, which links to both', () => {
  const same = [open('first', 'refund'), open('second', 'refund')];
  expect(statusNotices(waiting(same), true)).toEqual([
    {
      tone: 'waits',
      title: '2 sub-agents are waiting, each:',
      text: 'refund needs approval',
      runs: ['first', 'second'],
    },
  ]);
});

test('sub-agents that wait for different calls have a notice each', () => {
  const notices = statusNotices(waiting([open('first', 'refund'), open('second', 'deploy')]), true);
  expect(notices.map(({ title, text, runs }) => [title, text, runs])).toEqual([
    ['A sub-agent is waiting', 'refund needs approval', ['first']],
    ['A sub-agent is waiting', 'deploy needs approval', ['second']],
  ]);
});

test('advice to restart the server is only for those who may continue the run there', () => {
  const view = { ...waiting([]), status: 'running', settled: null, availableAgent: false } as RunView;
  expect(statusNotices(view, true).map(({ text }) => text)).toContainEqual(
    expect.stringContaining('restart the server'),
  );
  expect(statusNotices(view, false)).toEqual([]);
});

test('a run that failed, or whose answer is incomplete, says what the server advises', () => {
  const ended = (settled: object, advice?: string) => {
    const view = { ...waiting([]), status: 'finished', settled, advice } as unknown as RunView;
    return statusNotices(view, false).map(({ title, text }) => `${title}: ${text}`);
  };
  const incomplete = { status: 'finished', incomplete: { reason: 'turns' }, unread: [] };
  expect(ended(incomplete, 'Start another.')).toEqual(['The answer is incomplete: turns: Start another.']);
  const failed = { status: 'failed', error: { code: 'quota', message: 'No credit.' } };
  expect(ended(failed, 'Add credit.')).toEqual(['Failed: quota: Add credit.']);
  expect(ended(failed)).toEqual(['Failed: quota: No credit.']);
});
