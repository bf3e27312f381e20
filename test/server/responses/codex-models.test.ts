import { expect, it } from 'vitest';
import type { JsonObject } from '../../../protocol/json.ts';
import { Gateway } from '../../support/responses/gateway.ts';

async function read(path: string, headers: Record<string, string> = {}): Promise<JsonObject> {
  const models = { coder: 'anthropic:claude-sonnet-4-5', 'gpt-5.5': 'ollama:qwen3', fast: 'ollama:qwen3' };
  const gateway = new Gateway({}, { config: () => ({ models }) });
  const url = `http://127.0.0.1:4100${path}`;
  const answer = await gateway.app.request(url, { headers: { host: '127.0.0.1:4100', ...headers } });
  await gateway.close();
  return (await answer.json()) as JsonObject;
}

/** The members that Codex 0.171.0 refuses a list without. */
const NEEDED = [
  ...['slug', 'display_name', 'supported_reasoning_levels', 'shell_type', 'visibility', 'supported_in_api'],
  ...['priority', 'base_instructions', 'supports_reasoning_summaries', 'support_verbosity'],
  ...['truncation_policy', 'supports_parallel_tool_calls', 'experimental_supported_tools'],
];

it('Codex gets the list in its form, without the models that it knows better itself', async () => {
  const { models } = (await read('/v1/models?client_version=0.171.0')) as { models: JsonObject[] };
  expect(models.map(({ slug }) => slug)).toEqual(['coder', 'fast']);
  for (const model of models) {
    expect(Object.keys(model)).toEqual(expect.arrayContaining(NEEDED));
    expect(model.base_instructions).toMatch(/^You are a coding agent/);
  }
});

it('other clients get the list in the form of their API', async () => {
  expect(await read('/v1/models')).toMatchObject({ object: 'list', data: [{ object: 'model' }, {}, {}] });
  const anthropic = await read('/v1/models', { 'anthropic-version': '2023-06-01' });
  expect(anthropic).toMatchObject({ has_more: false, data: [{ type: 'model' }, {}, {}] });
});
