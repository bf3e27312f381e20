import { describe, test } from 'vitest';
import { adapterChecks } from '../../adapters/conformance.ts';
import { subjects, throughClients } from '../support/adapters/fixtures/subjects.ts';

describe.each(Object.entries({ ...subjects, ...throughClients }))('the adapter %s', (_, subject) => {
  for (const { name, run } of adapterChecks(subject)) test(name, run);
});
