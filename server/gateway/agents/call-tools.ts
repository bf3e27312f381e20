import type { Context } from '../../../machines/context.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { Tool } from '../../../protocol/tool.ts';
import {
  type Exposed,
  type ExposedTool,
  isSameTool,
  type ResponseSpec,
  specIn,
  toolNamed,
} from '../runs/response-spec.ts';

/** The tool that each call of a run was made for, from the journal: a later request may use its name for another tool. */
export class CallTools {
  #exposed: Exposed = {};
  readonly #tools = new Map<string, ExposedTool | undefined>();
  readonly used: Exposed = {};

  take(event: RunEvent): void {
    this.#takeSpec(specIn(event));
    if (event.type !== 'turn.completed') return;
    for (const { callId, name, error } of event.calls) {
      const tool = toolNamed(this.#exposed, name);
      this.#tools.set(callId, tool);
      if (tool !== undefined || error === undefined) this.used[name] = tool ?? { kind: 'function', name };
    }
  }

  /** The tool of a call; `undefined` for an unknown tool and for a function of the client under its own name. */
  of(callId: string): ExposedTool | undefined {
    return this.#tools.get(callId);
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
    Object.assign(this.used, spec.used);
    for (const { callId, tool } of spec.openCalls ?? []) this.#tools.set(callId, tool);
  }
}

/** The tools of a later request, which refuse to run a call that was made for another tool of the same name. */
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
