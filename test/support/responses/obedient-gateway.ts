import { isJsonObject, type JsonObject } from '../../../protocol/json.ts';
import { type Folder, Gateway } from './gateway.ts';
import { ObedientModel } from './obedient-model.ts';

/** A function that clients declare. */
export const ASK = {
  type: 'function',
  name: 'ask',
  parameters: { type: 'object', properties: { what: { type: 'string' } } },
};

/** An MCP tool entry for a configured server. */
export function server(server_label: string, more: JsonObject = {}): JsonObject {
  return { type: 'mcp', server_label, ...more };
}

/** Input that makes the model call `echo` in one turn. */
export const ECHO = 'echo with the arguments {"text":"hi"}';

/** A gateway over a store in memory whose model does what its input says. `desk` and `annex` are MCP servers. */
export class ObedientGateway extends Gateway {
  readonly model: ObedientModel;
  readonly #saved = { url: process.env.OPENAI_BASE_URL, key: process.env.OPENAI_API_KEY };

  private constructor(model: ObedientModel, servers: (folder: Folder) => JsonObject, more: JsonObject) {
    const config = (folder: Folder) => ({ mcp_servers: servers(folder), ...more });
    super({}, { config, model: 'openai-chat:obedient' });
    this.model = model;
    process.env.OPENAI_BASE_URL = model.url;
    process.env.OPENAI_API_KEY = 'unused';
  }

  static async start(
    servers = (folder: Folder): JsonObject => ({ desk: folder.server(), annex: folder.server() }),
    more: JsonObject = {},
  ): Promise<ObedientGateway> {
    return new ObedientGateway(await ObedientModel.listen(), servers, more);
  }

  override async close(): Promise<void> {
    await super.close();
    await this.model.close();
    const { url, key } = this.#saved;
    if (url === undefined) delete process.env.OPENAI_BASE_URL;
    else process.env.OPENAI_BASE_URL = url;
    if (key === undefined) delete process.env.OPENAI_API_KEY;
    else process.env.OPENAI_API_KEY = key;
  }

  /** The bodies that the model received during `work`. */
  async sentDuring(work: () => Promise<unknown>): Promise<JsonObject[]> {
    const before = this.model.requests.length;
    await work();
    return this.model.requests.slice(before);
  }
}

/** The messages of a body that the model received. */
export function messageList(body: JsonObject | undefined): JsonObject[] {
  const { messages } = body ?? {};
  return Array.isArray(messages) ? messages.filter(isJsonObject) : [];
}

/** The roles and calls of the messages that the model received, as `user`, `assistant(echo)`, `tool`. */
export function messagesOf(body: JsonObject | undefined): string[] {
  return messageList(body).map(({ role, tool_calls: calls }) => {
    const names = ((calls ?? []) as { function: { name: string } }[]).map(call => call.function.name);
    return names.length === 0 ? String(role) : `${String(role)}(${names.join()})`;
  });
}
