import type { Template } from '@huggingface/jinja';
import { type ProviderContext, unsupported } from '../http/provider-errors.ts';
import { jsonIn, objectOf } from '../turn/json-access.ts';
import type { ChatTemplate } from './model-files.ts';

/** Other ways to write calls, by what templates with them contain. */
const OTHER_FORMS: readonly (readonly [mark: string, name: string])[] = [
  ['<|channel|>', 'the Harmony format; use agentchart/adapters/harmony'],
  ['<function=', 'the XML format of Qwen3-Coder, <function=…>'],
  ['<arg_key>', 'the format of GLM, <arg_key>'],
  ['[TOOL_CALLS]', 'the format of Mistral, [TOOL_CALLS]'],
  ['<｜tool▁calls▁begin｜>', 'the format of DeepSeek, <｜tool▁calls▁begin｜>'],
  ['<|tool_calls_section_begin|>', 'the format of Kimi, <|tool_calls_section_begin|>'],
  ['<|python_tag|>', 'the format of Llama 3, <|python_tag|>'],
  ['<|tool_call|>', 'the format of Granite, <|tool_call|>'],
  ['tool_code', 'the format of Gemma, tool_code'],
];

/**
 * Checks that a template writes calls as `<tool_call>{"name": …, "arguments": …}</tool_call>`, by rendering
 * one. Throws a `ProviderError` that names the template's own form.
 */
export function assertCallForm({ template, source }: ChatTemplate, context: ProviderContext): void {
  const [, opened = ''] = (renderProbe(template).split('PROBE').at(-1) ?? '').split('<tool_call>');
  const [written = '', closed] = opened.split('</tool_call>');
  const call = objectOf(closed === undefined ? undefined : jsonIn(written));
  if (call.name === 'probe' && objectOf(call.arguments).city === 'x') return;
  const form = OTHER_FORMS.find(([mark]) => source.includes(mark))?.[1] ?? 'another format';
  throw unsupported(
    `its chat template writes tool calls in ${form}. Only <tool_call>{"name": …, "arguments": …}</tool_call> is supported. Use the server's HTTP API with its own tool parser, or no tools.`,
    context,
  );
}

function renderProbe(template: Template): string {
  const parameters = { type: 'object', properties: { city: { type: 'string' } } };
  const probe = { name: 'probe', description: 'probe', parameters };
  const call = { id: 'call00000', type: 'function', function: { name: 'probe', arguments: { city: 'x' } } };
  try {
    return template.render({
      messages: [
        { role: 'user', content: 'PROBE' },
        { role: 'assistant', content: '', tool_calls: [call] },
        { role: 'tool', tool_call_id: call.id, name: 'probe', content: '1' },
      ],
      tools: [{ type: 'function', function: probe }],
      add_generation_prompt: true,
    });
  } catch {
    return '';
  }
}
