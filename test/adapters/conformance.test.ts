import { describe, test } from 'vitest';
import { adapterChecks } from '../../adapters/conformance.ts';
import { subjects, throughClients } from '../support/adapters/fixtures/subjects.ts';
import { sampled } from '../support/sample.ts';

const adapters = Object.entries({ ...subjects, ...throughClients }).map(([adapter, subject]) => ({
  adapter,
  checks: adapterChecks(subject),
}));

/** Checks that replay a response thousands of times. `npm test` takes four of those of all adapters. */
const long = adapters.flatMap(({ checks }) =>
  checks.filter(({ name }) => name.endsWith('in two at every position')),
);
const chosen = new Set(sampled(long, 4));
const others = new Set(long.filter(check => !chosen.has(check)));

describe.each(adapters)('the adapter $adapter', ({ checks }) => {
  for (const check of checks) if (!others.has(check)) test(check.name, check.run);
});
