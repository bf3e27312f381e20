import { describe, expect, test } from 'vitest';
import type { Item } from '../../../protocol/item.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { answering, bodyFor, jsonReply, message, text } from '../../support/adapters/anthropic-exchange.ts';
import { calling, rejection, request } from '../../support/adapters/requests.ts';

// The replies are written after the documentation; no request leaves the process.
const begun: Item = { type: 'message', role: 'assistant', content: [{ type: 'text', text: '1.' }] };
const tools = [{ name: 'lookup', description: '', inputSchema: { type: 'object' } }];

async function refusal(model: string, more: Partial<ModelRequest>) {
  const { adapter, sent } = answering([jsonReply(message([text('ok')]))], { model });
  const error = await rejection(adapter.generate(request('hi', more), calling()));
  const counted = await rejection(adapter.countTokens?.(request('hi', more), calling()) ?? Promise.resolve());
  expect(sent).toEqual([]);
  expect(counted).toMatchObject({ message: (error as Error).message });
  return error;
}

describe('what a model does not accept is refused before the request, by its name', () => {
  test.each<[string, Partial<ModelRequest>, string, string]>([
    ['claude-opus-5-5', { settings: { temperature: 0.2 } }, 'temperature (0.2)', 'Leave it out'],
    ['claude-haiku-5-5', { settings: { topP: 0.5 } }, 'top_p (0.5)', 'Leave it out'],
    ['claude-sonnet-5', { providerOptions: { top_k: 5 } }, 'top_k (5)', 'Leave it out'],
    [
      'claude-sonnet-4-5',
      { settings: { temperature: 0.5, topP: 0.5 } },
      'temperature (0.5) and top_p (0.5) together',
      'Set one of them',
    ],
    [
      'claude-sonnet-4-5',
      { settings: { temperature: 0.5, reasoningEffort: 'low' } },
      'temperature (0.5) while it thinks',
      'reasoningEffort',
    ],
    ['claude-opus-5-5', { tools, toolChoice: 'required' }, 'forced tool choice', "toolChoice 'auto'"],
    ['claude-sonnet-5-5', { tools, toolChoice: { name: 'lookup' } }, 'forced tool choice', 'strict'],
    [
      'claude-fable-5-1',
      { tools, providerOptions: { tool_choice: { type: 'any' } } },
      'forced tool choice',
      'output',
    ],
    [
      'claude-opus-4-8',
      { tools, toolChoice: 'required', providerOptions: { thinking: { type: 'adaptive' } } },
      'forced tool choice',
      'providerOptions.thinking',
    ],
    [
      'claude-sonnet-5-5',
      { providerOptions: { thinking: { type: 'between_tools' }, output_config: { effort: 'max' } } },
      'output_config.effort ("max") without thinking',
      "'high'",
    ],
    [
      'claude-haiku-5-5',
      { transcript: [userMessage('List three.'), begun] },
      'a prefill',
      'message of the user',
    ],
  ])('%s: %j', async (model, more, option, instead) => {
    const error = await refusal(model, more);
    expect(error).toMatchObject({ code: 'invalid-request', provider: 'anthropic', model, retryable: false });
    expect(String(error)).toContain(`the model ${model} does not accept`);
    expect(String(error)).toContain(option);
    expect(String(error)).toContain(instead);
  });

  test('but nothing of a model that is newer than the table, or of another name', async () => {
    for (const model of ['claude-opus-9', 'claude-saga-7', 'qwen3']) {
      const sent = await bodyFor(
        request([userMessage('hi'), begun], {
          tools,
          toolChoice: 'required',
          settings: { temperature: 0.2 },
          providerOptions: { top_k: 5, thinking: { type: 'enabled', budget_tokens: 2_000 } },
        }),
        { model },
      );
      expect(sent).toMatchObject({
        temperature: 0.2,
        top_k: 5,
        tool_choice: { type: 'any' },
        thinking: { type: 'enabled', budget_tokens: 2_000 },
      });
    }
  });
});

describe('what a model accepts in another form is sent in that form', () => {
  const SHOWN = { type: 'adaptive', display: 'summarized' };

  test.each([
    [2_000, 'low'],
    [10_000, 'medium'],
    [32_000, 'high'],
  ])('a thinking budget of %d tokens is the effort %s', async (budget_tokens, effort) => {
    const thinking = { type: 'enabled', budget_tokens };
    const sent = await bodyFor(request('hi', { providerOptions: { thinking } }), {
      model: 'claude-opus-5-5',
    });
    expect(sent).toMatchObject({ thinking: SHOWN, output_config: { effort } });
    expect(sent.thinking).not.toHaveProperty('budget_tokens');
    const older = await bodyFor(request('hi', { providerOptions: { thinking } }), {
      model: 'claude-opus-4-6',
    });
    expect(older).toMatchObject({ thinking });
  });

  test.each([
    ['claude-opus-5-5', { thinking: SHOWN, output_config: { effort: 'low' } }],
    ['claude-fable-5-1', { thinking: SHOWN, output_config: { effort: 'low' } }],
    ['claude-sonnet-5-5', { thinking: { type: 'between_tools' } }],
    ['claude-haiku-5-5', { thinking: { type: 'disabled' } }],
  ])('%s is asked for the least thinking that it has', async (model, expected) => {
    const { thinking, output_config } = await bodyFor(
      request('hi', { providerOptions: { thinking: { type: 'disabled' } } }),
      { model },
    );
    expect({ thinking, output_config }).toEqual({ output_config: undefined, ...expected });
  });
});
