import type { Server, ServerContext } from '@modelcontextprotocol/server';
import { ANYONE, type Caller, personOf } from '../../access/caller.ts';
import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import type { Person } from '../../protocol/run-command.ts';

/** The extension with which a client takes a run as a task. */
export const TASKS = 'io.modelcontextprotocol/tasks';

/** The caller whom the server in front has authorized; over stdio, anyone. */
export function mcpCallerOf({ http }: ServerContext): Caller {
  return (http?.authInfo?.extra?.caller as Caller | undefined) ?? ANYONE;
}

/** Who answers: the caller; over stdio, the client. */
export function answererOf(server: Server, caller: Caller): Person {
  const client = `mcp:${server.getClientVersion()?.name ?? 'client'}`.slice(0, 200);
  return personOf(caller, { by: client }) ?? { name: client };
}

export function takesForms(server: Server, ctx: ServerContext): boolean {
  const { elicitation } = capabilitiesOf(server, ctx);
  return isJsonObject(elicitation) && ('form' in elicitation || !('url' in elicitation));
}

export function takesTasks(server: Server, ctx: ServerContext): boolean {
  const { extensions } = capabilitiesOf(server, ctx);
  return isJsonObject(extensions) && TASKS in extensions;
}

/** The client's capabilities: sent with each request since revision 2026-07-28, with the connection before. */
function capabilitiesOf(server: Server, { mcpReq }: ServerContext): JsonObject {
  const envelope: Readonly<Record<string, unknown>> = mcpReq.envelope ?? {};
  const declared = envelope['io.modelcontextprotocol/clientCapabilities'] ?? server.getClientCapabilities();
  return isJsonObject(declared) ? declared : {};
}
