import { describe, test } from 'vitest';
import { adapterChecks } from '../../adapters/conformance.ts';
import { subjects, throughClients } from '../support/adapters/fixtures/subjects.ts';
import { sampledByKind } from '../support/sample.ts';

const adapters = Object.entries({ ...subjects, ...throughClients }).map(([adapter, subject]) => ({
  adapter,
  checks: adapterChecks(subject),
}));

/** Checks that replay a response thousands of times. `npm test` takes a sixth of those of each adapter. */
const long = adapters.flatMap(({ adapter, checks }) =>
  checks.filter(({ name }) => name.endsWith('in two at every position')).map(check => ({ adapter, check })),
);
const ofTheDay = new Set(sampledByKind(long, 6, ({ adapter }) => adapter).map(({ check }) => check));
const others = new Set(long.map(({ check }) => check).filter(check => !ofTheDay.has(check)));

describe.each(adapters)('the adapter $adapter', ({ checks }) => {
  for (const check of checks) if (!others.has(check)) test(check.name, check.run);
});
