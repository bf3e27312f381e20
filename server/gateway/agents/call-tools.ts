import type { Context } from '../../../machines/context.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { Tool } from '../../../protocol/tool.ts';
import {
  type Exposed,
  type ExposedTool,
  isSameTool,
  RESPONSES,
  type ResponseSpec,
  readNote,
  readSpec,
  toolNamed,
} from '../runs/response-spec.ts';

/**
 * The tool that each call of a run refers to, collected from the journal. A later request may use the same name
 * for another tool; earlier calls still refer to the tool they were made for.
 */
export class CallTools {
  #exposed: Exposed = {};
  readonly #tools = new Map<string, ExposedTool>();
  readonly #used: Exposed = {};

  take(event: RunEvent): void {
    switch (event.type) {
      case 'run.started':
        return this.#takeSpec(readSpec(event.launch?.request));
      case 'run.noted': {
        const note = event.by === RESPONSES ? readNote(event.note) : undefined;
        return this.#takeSpec(note?.type === 'asked' ? note.spec : undefined);
      }
      case 'turn.completed':
        for (const { callId, name, error } of event.calls) {
          const tool = toolNamed(this.#exposed, name);
          this.#bind(callId, tool);
          if (tool !== undefined || error === undefined)
            this.#used[name] = tool ?? { kind: 'function', name };
        }
        return;
      default:
    }
  }

  /** The tool of a call; `undefined` for an unknown tool and for a function of the client under its own name. */
  of(callId: string): ExposedTool | undefined {
    return this.#tools.get(callId);
  }

  get used(): Exposed {
    return this.#used;
  }

  openIn({ calls }: Context): { callId: string; tool: ExposedTool }[] {
    return calls.flatMap(({ callId, status }) => {
      const tool = status === 'settled' ? undefined : this.of(callId);
      return tool === undefined ? [] : [{ callId, tool }];
    });
  }

  #takeSpec(spec: ResponseSpec | undefined): void {
    if (spec === undefined) return;
    this.#exposed = spec.exposed;
    Object.assign(this.#used, spec.used);
    for (const { callId, tool } of spec.openCalls ?? []) this.#bind(callId, tool);
  }

  #bind(callId: string, tool: ExposedTool | undefined): void {
    if (tool === undefined) this.#tools.delete(callId);
    else this.#tools.set(callId, tool);
  }
}

/**
 * The tools of a later request, which refuse to run an earlier call that was made for another tool of the same name.
 */
export function holdCalls(tools: readonly Tool[], exposed: Exposed, madeFor: CallTools): Tool[] {
  return tools.map(tool => {
    const { name, run } = tool;
    if (run === undefined) return tool;
    return {
      ...tool,
      run(input, context) {
        const wanted = madeFor.of(context.callId);
        if (wanted === undefined || isSameTool(wanted, toolNamed(exposed, name))) return run(input, context);
        throw new Error('Not run: this call was made for a different tool or MCP server.');
      },
    };
  });
}
