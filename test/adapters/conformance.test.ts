import { describe, test } from 'vitest';
import { adapterChecks } from '../../adapters/conformance.ts';
import { subjects } from './fixtures/subjects.ts';

describe.each(Object.entries(subjects))('the adapter %s', (_, subject) => {
  for (const { name, run } of adapterChecks(subject)) test(name, run);
});
