import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { modelFromEnv, providerNames } from '../../../adapters/model-from-env.ts';
import { calling, rejection, request } from '../../support/adapters/requests.ts';

afterEach(() => {
  vi.unstubAllEnvs();
});

/** The errors of providers that need no key. */
const KEYLESS: Readonly<Record<string, object>> = {
  ollama: { code: 'network' },
  harmony: { code: 'base-url-invalid', message: expect.stringContaining('Set HARMONY_BASE_URL') },
  vllm: { code: 'base-url-invalid', message: expect.stringContaining('Set VLLM_BASE_URL') },
};

describe('modelFromEnv', () => {
  test.each(['openai:gpt-5', 'openai-responses:gpt-5', ' openai:gpt-5\n'])(
    '%j is OpenAI Responses',
    value => {
      expect(modelFromEnv(value)).toMatchObject({ provider: 'openai-responses', model: 'gpt-5' });
    },
  );

  test.each(providerNames().filter(name => name !== 'openai' && name !== 'scripted'))(
    '%s: is the adapter of that name, and names its missing key',
    async name => {
      for (const variable of Object.keys(process.env)) {
        if (/_KEY$|_BASE_URL$/.test(variable)) vi.stubEnv(variable, undefined);
      }
      if (name === 'azure') vi.stubEnv('AZURE_BASE_URL', 'https://acme.openai.azure.com/openai/v1');
      vi.stubGlobal('fetch', () => Promise.reject(new TypeError('fetch failed')));
      const adapter = modelFromEnv(`${name}:some-model`);
      expect(adapter).toMatchObject({ provider: name, model: 'some-model' });
      const variable = `${name.replace(/-.*/, '').toUpperCase()}_API_KEY`;
      expect(await rejection(adapter.generate(request('hi'), calling()))).toMatchObject(
        KEYLESS[name] ?? { code: 'key-missing', message: expect.stringContaining(`Set ${variable}`) },
      );
      vi.unstubAllGlobals();
    },
  );

  test('loads no provider client, and optional packages only for adapters that need them, on their first call', async () => {
    const { metafile } = await build({
      entryPoints: [fileURLToPath(new URL('../../../adapters/model-from-env.ts', import.meta.url))],
      bundle: true,
      packages: 'external',
      platform: 'browser',
      format: 'esm',
      write: false,
      metafile: true,
    });
    const imports = Object.values(metafile.inputs).flatMap(input => input.imports);
    const packages = imports.filter(({ external }) => external).map(({ path }) => path);
    // Optional packages are loaded by name on the first call, and not bundled.
    expect(new Set(packages)).toEqual(
      new Set(['zod', 'zod/mini', '@noble/hashes/sha2.js', '@noble/hashes/utils.js']),
    );
  });

  test('splits provider and model at the first colon only', () => {
    expect(modelFromEnv('openai:ft:gpt-4.1:acme')).toMatchObject({ model: 'ft:gpt-4.1:acme' });
  });

  test('uses AGENTCHART_MODEL by default', () => {
    vi.stubEnv('AGENTCHART_MODEL', 'openai:gpt-4.1');
    expect(modelFromEnv()).toMatchObject({ model: 'gpt-4.1' });
  });

  test('scripted:FILE plays the file', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'agentchart-model-'));
    const file = join(folder, 'turns.json');
    writeFileSync(file, '[{"text":"hello"}]');
    const turn = await modelFromEnv(`scripted:${file}`).generate(request('hi'), calling());
    expect(turn.text).toBe('hello');
    rmSync(folder, { recursive: true });
  });

  test('rejects a script that does not load, immediately', () => {
    expect(() => modelFromEnv('scripted:/does/not/exist.json')).toThrow(
      expect.objectContaining({ code: 'script-invalid' }),
    );
  });

  test.each([
    [undefined, 'Set AGENTCHART_MODEL'],
    ['', 'openai:gpt-5'],
  ])('%j is rejected with the variable to set', (value, advice) => {
    vi.stubEnv('AGENTCHART_MODEL', undefined);
    expect(() => modelFromEnv(value)).toThrow(
      expect.objectContaining({ code: 'model-missing', message: expect.stringContaining(advice) }),
    );
  });

  test.each([
    ['openai', 'openai', '', 'names a provider but no model'],
    ['openai:', 'openai', '', 'names a provider but no model'],
    ['gpt-5', 'gpt-5', '', 'names no provider. Expected provider:model with one of openai, openai-responses'],
    ['acme:m', 'acme', 'm', 'names the unknown provider "acme"'],
  ])('%j is a provider error with advice', (value, provider, model, advice) => {
    expect(() => modelFromEnv(value)).toThrow(
      expect.objectContaining({
        name: 'ProviderError',
        code: 'model-unknown',
        provider,
        model,
        message: expect.stringContaining(advice),
      }),
    );
  });
});
