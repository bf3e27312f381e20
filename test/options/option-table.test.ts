import { expect, test } from 'vitest';
import { OPTION_TABLE } from '../support/options/option-table.ts';
import { findOptionTakers } from '../support/options/option-takers.ts';

/** Parameters that are data or another library's, which may have more members than are read. */
const DATA = [
  'Agent definition',
  'Agent options',
  'Agent.on listener',
  'Condition options',
  'Condition.holds call',
  'EngineError options',
  'ProviderError details',
  'ProviderError options',
  'Run loaded',
  'Run options',
  'Thread parts',
  'aiSdk model',
  'classifyTurn turn',
  'collectTurn origin',
  'content parts',
  'decideNextAction context',
  'estimateTokens item',
  'fromStored stored',
  'initial started',
  'listAll store',
  'next event',
  'spendOf what',
  'textOfResult result',
  'toHold report',
  'toolCallFrom call',
  'toolResultFrom result',
  'toolResults context',
  'trackCalls by',
  'turns input',
  'useRun run',
];

test('every function of the package that takes options is in the table of those that refuse unknown ones', () => {
  const takers = [...findOptionTakers()];
  expect(takers.length).toBeGreaterThan(90);
  const missed = takers.filter(taker => !Object.hasOwn(OPTION_TABLE, taker) && !DATA.includes(taker));
  expect(missed).toEqual([]);
  expect(DATA.filter(name => !takers.includes(name))).toEqual([]);
});
