import * as z from 'zod';
import type { JsonObject } from '../../../protocol/json.ts';
import type { Tool } from '../../../protocol/tool.ts';
import { validateWith } from '../../../tools/validate-with.ts';

type Declared = { type: string; description?: string | null; parameters?: JsonObject | null };
type FunctionForm = Pick<Tool, 'description' | 'inputSchema' | 'validate'>;

const number = z.int().nullish();
const patch = z.object({ path: z.string(), diff: z.string() });
const FORMS: Readonly<Record<string, { description: string; input: z.ZodType }>> = {
  apply_patch: {
    description:
      'Creates, changes or deletes a file. A diff is in the V4A format. To create a file, each line begins with "+". To change one, each section begins with a line "@@", and each line in it with " " (kept), "-" (removed) or "+" (added).',
    input: z.object({
      operation: z.discriminatedUnion('type', [
        patch.extend({ type: z.literal('create_file') }),
        patch.extend({ type: z.literal('update_file') }),
        z.object({ type: z.literal('delete_file'), path: z.string() }),
      ]),
    }),
  },
  shell: {
    description: 'Runs shell commands, at the same time, and returns what they print.',
    input: z.object({
      action: z.object({
        commands: z.array(z.string()),
        timeout_ms: number,
        max_output_length: number,
      }),
    }),
  },
  local_shell: {
    description: 'Runs a program with its arguments and returns what it prints.',
    input: z.object({
      action: z.object({
        type: z.literal('exec'),
        command: z.array(z.string()),
        env: z.record(z.string(), z.string()),
        timeout_ms: number,
        working_directory: z.string().nullish(),
      }),
    }),
  },
};

/** Whether other models have the tool as a function of a fixed form. */
export function isFunctionElsewhere(tool: string): boolean {
  return Object.hasOwn(FORMS, tool);
}

/**
 * A tool that OpenAI's models know, as a function of other models: its arguments are the members of the call's item.
 * `undefined` if it has no such form. Source: the types of openai@7.57.0.
 */
export function functionFormOf(tool: Declared): FunctionForm | undefined {
  if (tool.type === 'tool_search') {
    const { description, parameters } = tool;
    if (parameters == null) return undefined;
    return {
      description: description ?? '',
      inputSchema: { type: 'object', properties: {}, ...parameters },
      validate: value => ({ valid: true, value }),
    };
  }
  const form = Object.hasOwn(FORMS, tool.type) ? FORMS[tool.type] : undefined;
  if (form === undefined) return undefined;
  const { description, input } = form;
  const { $schema: _, ...inputSchema } = z.toJSONSchema(input) as JsonObject;
  return { description, inputSchema, validate: value => validateWith(input, value) };
}
