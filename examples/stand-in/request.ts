import * as z from 'zod';

const part = z.looseObject({ type: z.string(), text: z.string().optional() });
const content = z.union([z.string(), z.array(part)], {
  error: 'expected a string or a list of content parts',
});

const messageSchema = z.object({
  type: z.literal('message'),
  role: z.enum(['user', 'assistant', 'system', 'developer']),
  content,
});
const callSchema = z.object({
  type: z.literal('function_call'),
  call_id: z.string().min(1),
  name: z.string().min(1),
  arguments: z.string(),
});
const outputSchema = z.object({
  type: z.literal('function_call_output'),
  call_id: z.string().min(1),
  output: content,
  status: z.string().nullish(),
});
const itemSchemas = { message: messageSchema, function_call: callSchema, function_call_output: outputSchema };

/** The input items that the stand-in reads. Others, such as reasoning, are accepted and ignored. */
export type InputItem = z.infer<typeof messageSchema | typeof callSchema | typeof outputSchema>;

const itemSchema = z
  .looseObject({ type: z.string().optional() })
  .transform((item, context): InputItem | { type: 'other' } => {
    const type = item.type ?? ('role' in item ? 'message' : undefined);
    if (type === undefined) {
      context.addIssue({ code: 'custom', path: ['type'], message: 'expected an item with a type' });
      return z.NEVER;
    }
    if (!Object.hasOwn(itemSchemas, type)) return { type: 'other' };
    const parsed = itemSchemas[type as keyof typeof itemSchemas].safeParse({ ...item, type });
    if (parsed.success) return parsed.data;
    for (const { path, message } of parsed.error.issues) {
      context.addIssue({ code: 'custom', path: [...path], message });
    }
    return z.NEVER;
  });

const toolChoiceSchema = z.union([
  z.enum(['none', 'auto', 'required']),
  z.looseObject({ type: z.literal('function'), name: z.string() }),
  z.looseObject({
    type: z.literal('allowed_tools'),
    mode: z.enum(['auto', 'required']),
    tools: z.array(z.looseObject({ type: z.string(), name: z.string().optional() })),
  }),
]);

/** The members of a `POST /v1/responses` body that the stand-in reads or echoes. */
const requestSchema = z.looseObject({
  model: z.string().min(1),
  input: z.union([z.string(), z.array(z.unknown())]).default([]),
  instructions: z.string().nullish(),
  previous_response_id: z.string().nullish(),
  tools: z
    .array(z.looseObject({ type: z.string(), name: z.string().optional() }))
    .nullish()
    .refine(
      tools => !tools?.some(tool => tool.type === 'function' && !tool.name),
      'a function tool needs a name',
    ),
  tool_choice: toolChoiceSchema.nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  stream: z.boolean().nullish(),
  store: z.boolean().nullish(),
  max_output_tokens: z.number().int().positive().nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  metadata: z.record(z.string(), z.string()).nullish(),
  text: z
    .looseObject({
      format: z
        .looseObject({ type: z.literal('text', { error: 'the stand-in supports only plain text' }) })
        .optional(),
    })
    .nullish(),
});
export type ResponsesRequest = z.infer<typeof requestSchema>;

/** A problem of a request, with the fields of OpenAI's error envelope. */
export type RequestProblem = { message: string; param: string | null; code: string | null };

/** Validates a body and its input items. The problem names the first invalid field, such as `input[0].call_id`. */
export function parseRequest(
  body: unknown,
): { ok: true; request: ResponsesRequest; items: InputItem[] } | { ok: false; problem: RequestProblem } {
  const parsed = requestSchema.safeParse(body);
  if (!parsed.success) return { ok: false, problem: describe(parsed.error, []) };
  const { input } = parsed.data;
  if (typeof input === 'string') {
    return { ok: true, request: parsed.data, items: [{ type: 'message', role: 'user', content: input }] };
  }
  const items = z.array(itemSchema).safeParse(input);
  if (!items.success) return { ok: false, problem: describe(items.error, ['input']) };
  return { ok: true, request: parsed.data, items: items.data.filter(item => item.type !== 'other') };
}

/** Finds a call without an output, or an output without a call. OpenAI refuses both. */
export function findUnpaired(items: readonly InputItem[]): RequestProblem | null {
  const calls = new Set<string>();
  const outputs = new Set<string>();
  for (const item of items) {
    if (item.type === 'function_call') calls.add(item.call_id);
    if (item.type !== 'function_call_output') continue;
    if (!calls.has(item.call_id)) {
      return invalid(`No tool call found for function call output with call_id ${item.call_id}.`, 'input');
    }
    outputs.add(item.call_id);
  }
  const open = [...calls].find(callId => !outputs.has(callId));
  return open === undefined ? null : invalid(`No tool output found for function call ${open}.`, 'input');
}

/** Creates a problem. */
export function invalid(message: string, param: string | null, code: string | null = null): RequestProblem {
  return { message, param, code };
}

function describe(error: z.ZodError, prefix: PropertyKey[]): RequestProblem {
  const issue = error.issues[0];
  const [first, ...rest] = [...prefix, ...(issue?.path ?? [])];
  const steps = rest.map(step => (typeof step === 'number' ? `[${step}]` : `.${String(step)}`));
  const param = first === undefined ? null : `${String(first)}${steps.join('')}`;
  return invalid(
    `Invalid ${param ? `'${param}'` : 'request body'}: ${issue?.message ?? 'not understood'}.`,
    param,
    'invalid_value',
  );
}
