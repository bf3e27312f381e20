import type { Context } from '../../../machines/context.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import {
  type Exposed,
  RESPONSES,
  type ResponseSpec,
  readNote,
  readSpec,
  type ServerTool,
  toolNamed,
} from '../wire/response-spec.ts';

/**
 * Which server's tool each call of a run was made for, read from its journal entry by entry. A later request
 * may give the same name to another tool; that changes nothing for calls that were made before.
 */
export class CallTools {
  #exposed: Exposed = {};
  readonly #tools = new Map<string, ServerTool>();

  take(event: RunEvent): void {
    switch (event.type) {
      case 'run.started':
        return this.#ask(readSpec(event.launch?.request));
      case 'run.noted': {
        const note = event.by === RESPONSES ? readNote(event.note) : undefined;
        return this.#ask(note?.type === 'asked' ? note.spec : undefined);
      }
      case 'turn.completed':
        for (const { callId, name } of event.calls) this.#bind(callId, toolNamed(this.#exposed, name));
        return;
      default:
    }
  }

  /** `undefined` for a call of a function of the client, or of no tool at all. */
  of(callId: string): ServerTool | undefined {
    return this.#tools.get(callId);
  }

  /** Those of the calls that have no result yet. */
  openIn({ calls }: Context): { callId: string; tool: ServerTool }[] {
    return calls.flatMap(({ callId, status }) => {
      const tool = status === 'settled' ? undefined : this.of(callId);
      return tool === undefined ? [] : [{ callId, tool }];
    });
  }

  #ask(spec: ResponseSpec | undefined): void {
    if (spec === undefined) return;
    this.#exposed = spec.exposed;
    for (const { callId, tool } of spec.openCalls ?? []) this.#bind(callId, tool);
  }

  #bind(callId: string, tool: ServerTool | undefined): void {
    if (tool === undefined) this.#tools.delete(callId);
    else this.#tools.set(callId, tool);
  }
}
