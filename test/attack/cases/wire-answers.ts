/** Writes a complete response in a wire format. */
export type Dialect = 'chat' | 'responses' | 'anthropic' | 'gemini' | 'interactions' | 'ollama' | 'harmony';

/** By the names of `test/support/adapters/fixtures/subjects.ts`; the others use chat. */
const DIALECTS: Readonly<Record<string, Dialect>> = {
  openaiResponses: 'responses',
  xai: 'responses',
  azure: 'responses',
  anthropic: 'anthropic',
  gemini: 'gemini',
  geminiInteractions: 'interactions',
  ollama: 'ollama',
  harmony: 'harmony',
};

export function dialectOf(adapter: string): Dialect {
  return DIALECTS[adapter] ?? 'chat';
}

/** A body with one call of the tool `take`; `input` is the raw JSON of its arguments. */
export function bodyWithCall(dialect: Dialect, input: string): string {
  const text = JSON.stringify(input);
  switch (dialect) {
    case 'chat':
      return chat(
        `{"role":"assistant","content":null,"tool_calls":[{"id":"call00001","type":"function","function":{"name":"take","arguments":${text}}}]}`,
        'tool_calls',
      );
    case 'responses':
      return responses(
        `{"type":"function_call","id":"fc_1","call_id":"call_1","name":"take","status":"completed","arguments":${text}}`,
      );
    case 'anthropic':
      return anthropic(`{"type":"tool_use","id":"toolu_1","name":"take","input":${input}}`, 'tool_use');
    case 'gemini':
      return gemini(`{"functionCall":{"name":"take","args":${input}}}`);
    case 'interactions':
      return interactions(
        `{"type":"function_call","id":"un6k8t18","name":"take","arguments":${input}}`,
        'requires_action',
      );
    case 'ollama':
      return ollama(`"content":"","tool_calls":[{"function":{"name":"take","arguments":${input}}}]`);
    case 'harmony':
      return harmony(`<|channel|>commentary to=functions.take <|constrain|>json<|message|>${input}<|call|>`);
  }
}

export function bodyWithText(dialect: Dialect): string {
  switch (dialect) {
    case 'chat':
      return chat('{"role":"assistant","content":"done"}', 'stop');
    case 'responses':
      return responses(
        '{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"done","annotations":[]}]}',
      );
    case 'anthropic':
      return anthropic('{"type":"text","text":"done"}', 'end_turn');
    case 'gemini':
      return gemini('{"text":"done"}');
    case 'interactions':
      return interactions('{"type":"model_output","content":[{"type":"text","text":"done"}]}', 'completed');
    case 'ollama':
      return ollama('"content":"done"');
    case 'harmony':
      return harmony('<|channel|>final<|message|>done<|return|>');
  }
}

function chat(message: string, reason: string): string {
  return `{"id":"c1","object":"chat.completion","created":1,"model":"model-1","choices":[{"index":0,"finish_reason":"${reason}","message":${message}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`;
}

function responses(item: string): string {
  return `{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"model-1","output":[${item}],"error":null,"incomplete_details":null,"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}`;
}

function anthropic(block: string, reason: string): string {
  return `{"id":"msg_1","type":"message","role":"assistant","model":"model-1","content":[${block}],"stop_reason":"${reason}","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}`;
}

function gemini(part: string): string {
  return `{"candidates":[{"index":0,"finishReason":"STOP","content":{"role":"model","parts":[${part}]}}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1},"modelVersion":"model-1"}`;
}

function interactions(step: string, status: string): string {
  return `{"id":"v1_1","object":"interaction","status":"${status}","model":"model-1","steps":[${step}],"usage":{"total_input_tokens":1,"total_output_tokens":1,"total_tokens":2}}`;
}

function ollama(message: string): string {
  return `{"model":"model-1","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant",${message}},"done":true,"done_reason":"stop","prompt_eval_count":1,"eval_count":1}`;
}

/** A completion: the text after `<|start|>assistant`, with its special tokens. */
function harmony(text: string): string {
  return `{"id":"c1","object":"text_completion","created":1,"model":"model-1","choices":[{"index":0,"finish_reason":"stop","text":${JSON.stringify(text)}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`;
}
