import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { providerNames } from '../../adapters/model-from-env.ts';
import { insertProviderTable, providerTable } from '../support/docs/provider-table.ts';

const page = readFileSync(new URL('../../docs/models.md', import.meta.url), 'utf8');

describe('the table of providers in docs/models.md', () => {
  test('matches the declarations of the adapters, as `npm run docs` writes it', async () => {
    expect(page).toBe(await insertProviderTable(page));
  });

  test('has every provider that a model string can name', async () => {
    const table = await providerTable();
    for (const name of providerNames().filter(name => name !== 'openai-responses' && name !== 'scripted')) {
      expect(table).toContain(`| \`${name}:MODEL\` |`);
    }
  });

  test('names the variables that the adapters read, and leaves the environment unchanged', async () => {
    const before = process.env;
    const rows = (await providerTable()).split('\n');
    expect(process.env).toBe(before);
    const azure = rows.find(row => row.startsWith('| `azure:MODEL`'));
    expect(azure).toMatch(/\| `AZURE_API_KEY`, `AZURE_OPENAI_API_KEY` \| `AZURE_BASE_URL` \|$/);
  });
});
