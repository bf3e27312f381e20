import { describe, test } from 'vitest';
import { anthropic } from '../../adapters/anthropic.ts';
import { type AdapterUnderTest, adapterChecks } from '../../adapters/conformance.ts';
import { gemini } from '../../adapters/gemini.ts';
import { openaiResponses } from '../../adapters/openai-responses.ts';
import { subjects } from '../support/adapters/fixtures/subjects.ts';

/** The checks of growing requests for models that differ from `model-1` of `conformance.test.ts`. */
const MODELS: Record<string, { of: string; open: AdapterUnderTest['open'] }> = {
  ...Object.fromEntries(
    ['claude-opus-5-5', 'claude-opus-4-5', 'claude-sonnet-4-0'].map(model => [
      model,
      { of: 'anthropic', open: options => anthropic({ model, ...options }) },
    ]),
  ),
  ...Object.fromEntries(
    ['gpt-6', 'gpt-5', 'gpt-4o'].map(model => [
      model,
      { of: 'openaiResponses', open: options => openaiResponses({ model, ...options }) },
    ]),
  ),
  'gpt-6 that stores nothing': {
    of: 'openaiResponses',
    open: options => openaiResponses({ model: 'gpt-6', providerOptions: { store: false }, ...options }),
  },
  'gemini-3-pro': { of: 'gemini', open: options => gemini({ model: 'gemini-3-pro', ...options }) },
  'gemini-3-pro with interactions': {
    of: 'geminiInteractions',
    open: options => gemini({ model: 'gemini-3-pro', api: 'interactions', ...options }),
  },
};

describe.each(Object.entries(MODELS))('%s', (_, { of, open }) => {
  const { exchanges = [] } = subjects[of] ?? {};
  for (const { name, run } of adapterChecks({ open, exchanges }))
    if (name.endsWith('begins with the one before it')) test(name, run);
});
