import type OpenAI from 'openai';
import type {
  FunctionTool,
  Response,
  ResponseInput,
  ResponseInputItem,
  ResponseStreamEvent,
} from 'openai/resources/responses/responses';
import { stewardInstructions } from '../../../examples/steward/instructions.ts';
import { omitUndefined } from '../../../protocol/json.ts';

/** Runs one tool call. Returns the result for the model. */
export type Execute = (name: string, input: Record<string, string>) => string | Promise<string>;

type Call = { name: string; input: Record<string, string>; output: string };
export type Turn = { text: string; calls: Call[]; response: Response; events: ResponseStreamEvent[] };

export type SessionOptions = {
  client: OpenAI;
  execute: Execute;
  root: string;
  chained?: boolean;
  stream?: boolean;
  tools?: FunctionTool[];
  parallel?: boolean;
};

export const TOOLS = ['directory_tree', 'list_directory', 'read_text_file', 'write_file'].map(functionTool);

export function functionTool(name: string): FunctionTool {
  const parameters = { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] };
  return { type: 'function', name, description: name, parameters, strict: false };
}

/** The tools of the filesystem server over files in memory: `files` maps paths relative to `root` to texts. */
export function memoryFolder(root: string, files: Map<string, string>): Execute {
  const inside = (path: string | undefined) => (path ?? '').slice(root.length).replace(/^\//, '');
  const childrenOf = (folder: string) => {
    const prefix = folder === '' ? '' : `${folder}/`;
    const below = [...files.keys()]
      .filter(path => path.startsWith(prefix))
      .map(path => path.slice(prefix.length));
    return [...new Set(below.map(path => path.split('/')[0] ?? ''))].map(name => ({
      name,
      path: prefix + name,
      isFolder: !files.has(prefix + name),
    }));
  };
  const tree = (folder: string): object[] =>
    childrenOf(folder).map(({ name, path, isFolder }) =>
      isFolder ? { name, type: 'directory', children: tree(path) } : { name, type: 'file' },
    );
  return (name, input) => {
    const path = inside(input.path);
    if (name === 'directory_tree') return JSON.stringify(tree(path), null, 2);
    if (name === 'list_directory') {
      return childrenOf(path)
        .map(entry => `${entry.isFolder ? '[DIR]' : '[FILE]'} ${entry.name}`)
        .join('\n');
    }
    if (name === 'write_file') {
      files.set(path, input.content ?? '');
      return `Successfully wrote to ${input.path}`;
    }
    return files.get(path) ?? `ENOENT: no such file or directory, open '${input.path}'`;
  };
}

/** A conversation with a model: `say` runs turns until one has no calls, and returns them. */
export function openSession(options: SessionOptions): {
  say(message: string): Promise<Turn[]>;
  items: ResponseInput;
} {
  const { client, execute, root, chained = false, stream = false, tools = TOOLS, parallel = true } = options;
  const items: ResponseInput = [];
  let previousId: string | undefined;

  async function ask(added: ResponseInputItem[]): Promise<Turn> {
    items.push(...added);
    const body = {
      model: 'any',
      instructions: stewardInstructions(root),
      tools,
      parallel_tool_calls: parallel,
      store: chained,
      input: chained ? added : items,
      ...omitUndefined({ previous_response_id: previousId }),
    };
    const events: ResponseStreamEvent[] = [];
    if (stream) {
      for await (const event of await client.responses.create({ ...body, stream: true })) events.push(event);
    }
    const last = events.at(-1);
    const response =
      last?.type === 'response.completed' ? last.response : await client.responses.create(body);
    if (chained) previousId = response.id;
    const calls: Call[] = [];
    let text = '';
    for (const item of response.output) {
      items.push(item as ResponseInputItem);
      if (item.type === 'message')
        text += item.content.map(part => (part.type === 'output_text' ? part.text : '')).join('');
      if (item.type === 'function_call')
        calls.push({ name: item.name, input: JSON.parse(item.arguments), output: '' });
    }
    return { text, calls, response, events };
  }

  async function say(message: string): Promise<Turn[]> {
    const turns: Turn[] = [];
    let added: ResponseInputItem[] = [{ role: 'user', content: message }];
    for (;;) {
      const turn = await ask(added);
      turns.push(turn);
      if (turn.calls.length === 0) return turns;
      for (const call of turn.calls) call.output = await execute(call.name, call.input);
      const ids = turn.response.output.flatMap(item => (item.type === 'function_call' ? [item.call_id] : []));
      added = ids.map((call_id, index) => ({
        type: 'function_call_output',
        call_id,
        output: turn.calls[index]?.output ?? '',
      }));
    }
  }

  return { say, items };
}
