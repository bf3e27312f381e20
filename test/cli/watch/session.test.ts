import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent, memory, tool } from '../../../agent/index.ts';
import { type Board, BoardReader, EMPTY_BOARD } from '../../../cli/watch/board.ts';
import { drawWatch } from '../../../cli/watch/draw-watch.ts';
import { widthOf } from '../../../cli/watch/text-width.ts';
import { type WatchActions, WatchSession } from '../../../cli/watch/watch-session.ts';
import type { Answer } from '../../../protocol/open/answer.ts';
import { callIdOf, type InboxItem } from '../../../protocol/run-view.ts';
import { makeProgress } from '../../../stores/conformance/check.ts';

const NOW = 1_800_000_000_000;

function makeItem(callId: string, changes: Partial<InboxItem['call']> = {}, title = 'Refund'): InboxItem {
  const call = {
    kind: 'approval',
    id: callId,
    callId,
    runId: `run_${callId}`,
    name: 'refund',
    input: { cents: 4_200, orderId: 'B-2', note: 'parcel 2 of 6' },
    sideEffect: 'once',
    digest: `digest of ${callId}`,
    ...changes,
  } as InboxItem['call'];
  return {
    kind: call.kind,
    runId: call.runId,
    rootId: call.runId,
    agent: 'desk',
    title,
    labels: {},
    spent: { turns: 1, tokens: 0, cost: 0, activeMs: 0 },
    since: NOW - 60_000,
    call,
  };
}

function makeRun(runId: string, title: string): Board['runs'][number] {
  return {
    ...makeProgress('waiting', { state: 'resting.awaitingApproval' }),
    ...{ runId, title, agent: 'desk', labels: {}, status: 'waiting', createdAt: NOW - 90_000 },
    ...{ updatedAt: NOW - 60_000, seq: 3, epoch: 1, redactions: 0 },
  };
}

function makeBoard(...items: InboxItem[]): Board {
  const runs = items.map(({ runId, title }) => makeRun(runId, title));
  return { ...EMPTY_BOARD, items, runs, records: new Map(runs.map(run => [run.runId, run])) };
}

/** A session with a clock of its own; `keys` presses keys half a second apart. */
class Desk {
  readonly decided: { callId: string; answer: Answer }[] = [];
  refusal: string | undefined;
  #timers: { at: number; run(): void }[] = [];
  #now = 0;
  readonly actions: WatchActions = {
    decide: async ({ call }, answer) => {
      if (this.refusal !== undefined) return { isTaken: false, message: this.refusal };
      this.decided.push({ callId: callIdOf(call), answer });
      return { isTaken: true };
    },
    ask: async () => 'asked',
    suspend: () => {},
    quit: () => {},
  };
  readonly session = new WatchSession({
    person: { name: 'ada', groups: ['support'] },
    actions: this.actions,
    onChange: () => {},
    later: (ms, run) => {
      const timer = { at: this.#now + ms, run };
      this.#timers.push(timer);
      return () => {
        this.#timers = this.#timers.filter(one => one !== timer);
      };
    },
  });

  async keys(...names: string[]): Promise<void> {
    for (const name of names) {
      this.session.press({ name }, this.#now);
      await this.wait(700);
    }
  }

  async wait(ms: number): Promise<void> {
    this.#now += ms;
    const due = this.#timers.filter(({ at }) => at <= this.#now);
    this.#timers = this.#timers.filter(({ at }) => at > this.#now);
    for (const { run } of due) run();
    await new Promise(resolve => setImmediate(resolve));
  }

  draw(columns: number, rows = 24): string[] {
    const drawing = { view: this.session.view, person: { name: 'ada' }, store: 'runs.db', now: NOW };
    const { lines } = drawWatch(drawing, { columns, rows });
    return lines.map(line => line.map(part => (typeof part === 'string' ? part : part.text)).join(''));
  }
}

describe('watch', () => {
  test('shows what is decided at the first press, and decides at the second', async () => {
    const desk = new Desk();
    desk.session.show(makeBoard(makeItem('c1'), makeItem('c2')));
    await desk.keys('j', 'a');
    expect(desk.draw(120).join('\n')).toContain(
      'Approve refund of $42.00 for B-2 in “Refund”? Press a again',
    );
    expect(desk.decided).toEqual([]);
    await desk.keys('a');
    expect(desk.decided).toEqual([{ callId: 'c2', answer: { type: 'approve' } }]);
    expect(desk.draw(120).join('\n')).toContain('Approved: refund of $42.00 for B-2.');
  });

  test('rejects with a reason, which it asks for', async () => {
    const desk = new Desk();
    desk.session.show(makeBoard(makeItem('c1')));
    await desk.keys('r', 't', 'o', 'o', 'Backspace', 'Enter');
    expect(desk.draw(100).join('\n')).toContain('Reject refund of $42.00 for B-2 in “Refund”, because “to”?');
    await desk.keys('Enter');
    expect(desk.decided).toEqual([{ callId: 'c1', answer: { type: 'reject', reason: 'to' } }]);
  });

  test('a question ends with another key, with Escape, and when its call is resolved or changed elsewhere', async () => {
    const desk = new Desk();
    const board = makeBoard(makeItem('c1'), makeItem('c2'));
    desk.session.show(board);
    await desk.keys('a', 'Escape', 'Enter', 'Escape', 'a', 'j', 'Enter', 'Escape', 'k', 'a');
    desk.session.show(makeBoard(makeItem('c2')));
    expect(desk.session.view.asked).toBe('');
    await desk.keys('a');
    desk.session.show(makeBoard(makeItem('c2', { digest: 'another' })));
    await desk.keys('Enter');
    expect(desk.decided).toEqual([]);
  });

  test('says so when what is opened was resolved elsewhere, and shows what a refusal says', async () => {
    const desk = new Desk();
    desk.session.show(makeBoard(makeItem('c1'), makeItem('c2')));
    await desk.keys('Enter');
    desk.session.show(makeBoard(makeItem('c2')));
    expect(desk.draw(80).join('\n')).toContain('Resolved elsewhere: refund of $42.00 for B-2.');
    desk.refusal = 'Call c2 was already approved by Bob.';
    await desk.keys('a', 'a');
    expect(desk.draw(80).join('\n')).toContain('already approved by Bob');
  });

  test('a row stays chosen while others come above it', async () => {
    const desk = new Desk();
    desk.session.show(makeBoard(makeItem('c1'), makeItem('c2')));
    await desk.keys('j');
    desk.session.show(makeBoard(makeItem('c0'), makeItem('c1'), makeItem('c2')));
    await desk.keys('a', 'Enter');
    expect(desk.decided.map(({ callId }) => callId)).toEqual(['c2']);
  });

  test('does not ask about what the person may not decide, or what needs more than a press', async () => {
    const desk = new Desk();
    desk.session.show(
      makeBoard(makeItem('c1', { by: ['finance'] } as never), makeItem('c2', { kind: 'doubt' })),
    );
    await desk.keys('a', 'a');
    expect(desk.draw(100).join('\n')).toContain('ada is in none of the groups');
    await desk.keys('Escape', 'j', 'a', 'a');
    expect(desk.draw(100).join('\n')).toContain('say so, or try again. Press e.');
    const reason = 'A person must sign in at "crm".';
    const signIn = { kind: 'sign-in', server: 'crm', reason, url: 'https://crm.test/mcp' };
    desk.session.show(makeBoard(makeItem('c3', signIn as never)));
    expect(desk.draw(100).join('\n')).toMatch(/sign in +crm +A person must sign in at "crm"\. +Refund/);
    await desk.keys('a', 'a');
    expect(desk.draw(100).join('\n')).toContain(`${reason} Press e.`);
    await desk.keys('Enter');
    expect(desk.draw(80).join('\n')).toContain('https://crm.test/mcp');
    expect(desk.decided).toEqual([]);
  });

  test('opens the decision beside the lists, or in their place, with the whole input', async () => {
    const desk = new Desk();
    const lines = Array.from({ length: 60 }, (_, line) => `line ${line}.`).join('\n');
    desk.session.show(
      makeBoard(makeItem('c1', { input: { lines }, reason: 'over the limit', quorum: 2 } as never)),
    );
    await desk.keys('Enter');
    const wide = desk.draw(140, 30).join('\n');
    for (const part of [
      'Inbox',
      'over the limit',
      'the approvals of 2 people',
      'run_c1',
      'line 0.',
      'lines 1–',
    ])
      expect(wide).toContain(part);
    expect(desk.draw(80, 30).join('\n')).not.toContain('Inbox');
    await desk.keys('End');
    desk.session.limitScroll(60);
    expect(desk.draw(80, 30).join('\n')).toContain('line 59.');
  });

  test.each([30, 40, 80, 200])(
    'no line is wider than %i columns, whatever texts there are',
    async columns => {
      const desk = new Desk();
      const hostile = '\u001b[2J\u001b]0;x\u0007\u202e漢字👩‍👩‍👧 a\r\nb\tc'.repeat(20);
      const item = makeItem('c1', { name: hostile, reason: hostile, input: { [hostile]: hostile } }, hostile);
      desk.session.show(makeBoard(item, makeItem('c2')));
      const check = (rows: number) => {
        const drawn = desk.draw(columns, rows);
        expect(drawn).toHaveLength(rows);
        for (const line of drawn) {
          expect(widthOf(line)).toBeLessThanOrEqual(columns);
          // biome-ignore lint/suspicious/noControlCharactersInRegex: none may be left.
          expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/);
        }
      };
      for (const key of ['j', 'k', 'a', 'Escape', 'Enter', 'PageDown', 'r', 'x', 'Enter', 'Tab', 'Enter']) {
        await desk.keys(key);
        check(24);
      }
    },
  );

  test('draws only the rows that fit, of any number', () => {
    const desk = new Desk();
    desk.session.show(makeBoard(...Array.from({ length: 500 }, (_, at) => makeItem(`c${at}`))));
    const drawn = desk.draw(80, 24);
    expect(drawn).toHaveLength(24);
    expect(drawn.filter(line => line.includes('$42.00 · B-2')).length).toBe(9);
  });

  test('orders the inbox: doubts, then what this person may decide, then the longest wait; `/` filters', async () => {
    const store = memory();
    let time = NOW;
    const host = { now: () => (time += 1_000) };
    const ask = (name: string, by?: string) =>
      tool({
        name,
        description: name,
        input: z.object({}),
        approval: () => ({ required: true, ...(by && { by }) }),
        run: () => 'ok',
      });
    const turn = (...names: string[]) => ({ toolCalls: names.map(name => ({ name })) });
    const start = async (...names: string[]) => {
      const agent = createAgent({
        ...{ name: 'desk', store, model: scripted([turn(...names), { text: 'Done.' }]) },
        tools: [ask('first'), ask('second'), ask('theirs', 'finance')],
      });
      await (await agent.start(`about ${names}`)).settled();
    };
    await start('theirs', 'first');
    await start('second');
    const reader = new BoardReader({ store, person: { name: 'ada', groups: [] } });
    const names = async (text: string) =>
      (await reader.read(text, host.now())).items.map(({ call }) => ('name' in call ? call.name : ''));
    expect(await names('')).toEqual(['first', 'second', 'theirs']);
    expect(await names('SECOND')).toEqual(['second']);
    const board = await reader.read('', NOW);
    expect(await reader.read('', NOW + 100)).toBe(board);
    expect(board.runs).toHaveLength(2);
  });
});
