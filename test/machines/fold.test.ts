import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { generateEvents } from '../../explore/generate-events.ts';
import { fromStored, toStored } from '../../machines/snapshot.ts';
import { type ChartState, initial, next } from '../../machines/step.ts';
import type { RunConfig } from '../../protocol/config.ts';
import type { ChartEvent } from '../../protocol/event.ts';
import { makeStarted } from '../support/machines/builders.ts';
import { choices, configs, WORLD } from '../support/machines/random-runs.ts';
import { randomCases } from '../support/sample.ts';

/** Feeds random events until the run ends. Returns the state and the accepted events. */
function play(config: RunConfig, picks: readonly number[]): { state: ChartState; journal: ChartEvent[] } {
  let { state } = initial(makeStarted(config));
  const journal: ChartEvent[] = [];
  for (const pick of picks) {
    const offers = generateEvents(state, WORLD).filter(({ type }) => type !== 'run.cancelled');
    const offered = offers[pick % offers.length];
    if (offered === undefined || state.status !== 'active') break;
    const step = next(state, offered);
    if (step.handled) journal.push(offered);
    state = step.state;
  }
  return { state, journal };
}

const textOf = (state: ChartState): string => JSON.stringify(toStored(state));
const throughJson = (state: ChartState): ChartState => fromStored(JSON.parse(textOf(state)));

function replay(state: ChartState, journal: readonly ChartEvent[]): ChartState {
  return journal.reduce((before, event) => {
    const step = next(before, event);
    if (!step.handled) throw new Error(`${event.type} is in the journal and was not taken`);
    return step.state;
  }, state);
}

describe('state is a fold of its events', () => {
  it('replaying the accepted events produces the same bytes', () => {
    fc.assert(
      fc.property(configs, choices, (config, picks) => {
        const { state, journal } = play(config, picks);
        const stored: ChartEvent[] = JSON.parse(JSON.stringify(journal));
        expect(textOf(replay(initial(makeStarted(config)).state, stored))).toBe(textOf(state));
      }),
      { numRuns: randomCases(150) },
    );
  });

  it('a snapshot at any event, followed by the rest, produces the same bytes', () => {
    fc.assert(
      fc.property(configs, choices, fc.nat(), (config, picks, cut) => {
        const { state, journal } = play(config, picks);
        const at = cut % (journal.length + 1);
        const middle = replay(initial(makeStarted(config)).state, journal.slice(0, at));
        expect(textOf(replay(throughJson(middle), journal.slice(at)))).toBe(textOf(state));
      }),
      { numRuns: randomCases(100) },
    );
  });

  it('events that are not accepted leave no trace, wherever they occur', () => {
    fc.assert(
      fc.property(configs, choices, (config, picks) => {
        const { state, journal } = play(config, picks);
        let again = initial(makeStarted(config)).state;
        for (const event of journal) {
          for (const strange of generateEvents(again, WORLD)) {
            const step = next(again, strange);
            if (!step.handled) again = step.state;
          }
          again = next(again, event).state;
        }
        expect(textOf(again)).toBe(textOf(state));
      }),
      { numRuns: randomCases(30) },
    );
  });

  it('a fold does not change its input state', () => {
    fc.assert(
      fc.property(configs, choices, (config, picks) => {
        const { state } = play(config, picks);
        const before = textOf(state);
        for (const event of generateEvents(state, WORLD)) next(state, event);
        expect(textOf(state)).toBe(before);
      }),
      { numRuns: randomCases(50) },
    );
  });
});
