import { describe, expect, test } from 'vitest';
import { appendEvidence } from '../../engine/journal/evidence.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { AGENT, calling, Desk, eventsOf, REFUND, typesOf } from '../support/cli/desk.ts';

const done = { text: 'Done.' };

describe.concurrent('a run that waits for an approval', () => {
  test('is approved once, in another process that gets neither agent nor model as an option', async () => {
    const desk = new Desk([calling(['lookup', { orderId: 'A-1' }]), calling(REFUND), done]);
    const begun = await desk.begin();
    expect(begun.code).toBe(3);
    expect(typesOf(begun.events)).toContain('tool.settled');
    expect(begun.stderr).toContain('refund waits for approval');
    const digest = /digest +(\w+)/.exec(begun.stderr)?.[1] ?? '';

    const approved = await desk.run([
      'approve',
      begun.runId,
      'call_1_0',
      '--digest',
      digest,
      '--by',
      'ada',
      '--json',
    ]);
    expect(approved.code).toBe(0);
    const events = eventsOf(approved.stdout);
    expect(events[0]).toMatchObject({ type: 'approval.decided', by: 'ada', seq: begun.events.length + 1 });
    expect(events.filter(({ type }) => type === 'tool.settled')).toMatchObject([
      { output: { refunded: 4200 } },
    ]);

    const again = await desk.run(['approve', begun.runId, 'call_1_0', '--digest', digest]);
    expect(again.code).toBe(4);
    expect(again.stderr).toContain('approved by ada');
    const journal = await desk.journal(begun.runId);
    expect(journal.filter(({ type }) => type === 'approval.decided')).toHaveLength(1);
    expect([...begun.events, ...events]).toEqual(journal);
  });

  test('remembers module and script as absolute paths; a model set later takes precedence', async () => {
    const desk = new Desk([calling(REFUND), done]);
    const begun = await desk.begin();
    const launch = { module: AGENT, model: `scripted:${desk.path('turns.json')}` };
    expect(begun.events[0]).toMatchObject({ launch });
    desk.write('other.json', JSON.stringify([done, { text: 'Done by the other one.' }]));
    const ended = await desk.run(['approve', begun.runId, 'call_0_0'], {
      AGENTCHART_MODEL: 'scripted:other.json',
    });
    expect(ended.stdout).toContain('Done by the other one.');
  });

  test('rejects an approval with another digest, and an input that the tool does not accept', async () => {
    const desk = new Desk([calling(REFUND), done]);
    const { runId, events } = await desk.begin();
    const approve = (...args: string[]) => desk.run(['approve', runId, 'call_0_0', ...args]);
    const [otherDigest, notJson, notValid] = await Promise.all([
      approve('--digest', 'beef'),
      approve('--input', '{cents}'),
      approve('--input', '{"orderId":"A-1","cents":"all"}'),
    ]);
    expect([otherDigest.code, notJson.code, notValid.code]).toEqual([4, 2, 2]);
    expect(notJson.stderr).toContain('--input must be valid JSON');
    expect(notValid.stderr).toContain('cents');
    expect(await desk.journal(runId)).toHaveLength(events.length);
  });

  test('runs the call with an edited input', async () => {
    const desk = new Desk([calling(REFUND), done]);
    const { runId } = await desk.begin();
    const edited = '{"orderId":"A-1","cents":100}';
    const ended = await desk.run(['approve', runId, 'call_0_0', '--input', edited, '--json']);
    expect(ended.code).toBe(0);
    expect(ended.stdout).toContain('{"refunded":100}');
  });

  test('approves later calls of the tool too with --sticky', async () => {
    const desk = new Desk([calling(REFUND), calling(REFUND), done]);
    const { runId } = await desk.begin();
    expect((await desk.run(['approve', runId, 'call_0_0', '--sticky'])).code).toBe(0);
  });

  test('is rejected with a reason that the model reads', async () => {
    const desk = new Desk([calling(REFUND), done]);
    const { runId } = await desk.begin();
    const ended = await desk.run(['reject', runId, 'call_0_0', '--reason', 'too much', '--by', 'ada']);
    expect(ended.code).toBe(0);
    expect(ended.stdout).toContain('rejected: too much by ada');
    expect(typesOf(await desk.journal(runId))).not.toContain('tool.started');
  });

  test('accepts a result instead of an approval; keeps waiting when a message comes', async () => {
    const [answered, asked] = [new Desk([calling(REFUND), done]), new Desk([calling(REFUND), done])];
    const [first, second] = await Promise.all([answered.begin(), asked.begin()]);
    const [answer, send] = await Promise.all([
      answered.run(['answer', first.runId, 'call_0_0', '--output', '{"refunded":1}']),
      asked.run(['send', second.runId, 'leave', 'it', '--by', 'ada', '--json']),
    ]);
    expect([answer.code, send.code]).toEqual([0, 3]);
    expect(eventsOf(send.stdout)[0]).toMatchObject({
      type: 'message.received',
      by: 'ada',
      items: [{ content: [{ text: 'leave it' }] }],
    });
    expect((await asked.run(['approve', second.runId, 'call_0_0'])).code).toBe(0);
  });

  test('rejects an approval after its deadline', async () => {
    const desk = new Desk([calling('expiring'), done]);
    const { runId } = await desk.begin();
    expect((await desk.run(['approve', runId, 'call_0_0'])).code).toBe(4);
    expect(typesOf(await desk.journal(runId))).not.toContain('tool.started');
  });

  test('is approved immediately with --yes, which is printed', async () => {
    const desk = new Desk([calling(REFUND, 'ask_customer'), done]);
    const ended = await desk.begin('--yes', '--by', 'ada');
    expect(ended.code).toBe(3);
    expect(ended.stderr).toContain('refund approved by --yes');
    expect(ended.stderr).toContain('ask_customer waits for its result');
    expect(ended.events.find(({ type }) => type === 'approval.decided')).toMatchObject({ by: 'ada' });
  });
});

describe.concurrent('a call that waits for a client', () => {
  test('gets its result from answer, once', async () => {
    const desk = new Desk([calling('ask_customer'), done]);
    const { runId, code } = await desk.begin();
    expect(code).toBe(3);
    const answer = () => desk.run(['answer', runId, 'call_0_0', '--output', '"yes"']);
    expect((await answer()).code).toBe(0);
    const again = await answer();
    expect(again.code).toBe(4);
    expect(again.stderr).toContain('was already answered by');
  });
});

describe.concurrent('a call in doubt', () => {
  const outcomes: [string[], string][] = [
    [['--retry'], 'charged again'],
    [['--happened', '{"charged":true}'], '{"charged":true}'],
    [['--failed', 'it never arrived'], 'it never arrived'],
  ];
  test.each(outcomes)('is resolved with %j', async (resolution, expected) => {
    const desk = new Desk([calling('charge'), done]);
    const begun = await desk.begin();
    expect(begun.code).toBe(3);
    expect(begun.stderr).toContain('charge is in doubt');
    const ended = await desk.run(['resolve', begun.runId, 'call_0_0', ...resolution]);
    expect(ended.code).toBe(0);
    expect(ended.stdout).toContain(expected);
  });

  test('is shown with the result that arrived after it was considered lost', async () => {
    const desk = new Desk([calling('charge'), done]);
    const { runId } = await desk.begin();
    const store = sqlite(desk.store);
    const output = { charged: 4200 };
    await appendEvidence(store, runId, {
      type: 'tool.late',
      at: 1,
      callId: 'call_0_0',
      output,
      isError: false,
    });
    await store.close();
    const shown = await desk.run(['show', runId]);
    expect(shown.stdout).toContain('late result: charge (call_0_0) returned {"charged":4200}');
  });

  test('is resolved with exactly one option', async () => {
    const desk = new Desk([calling('charge'), done]);
    const { runId } = await desk.begin();
    const [none, two] = await Promise.all([
      desk.run(['resolve', runId, 'call_0_0']),
      desk.run(['resolve', runId, 'call_0_0', '--retry', '--failed', 'no']),
    ]);
    expect([none.code, two.code]).toEqual([2, 2]);
  });
});
