import type { ProviderFetch } from '../../../adapters/http/transport.ts';
import { type Agent, createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import { messageOf, ProviderError } from '../../../protocol/error.ts';
import type { Item, ProviderItem } from '../../../protocol/item.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import type { Store } from '../../../protocol/store.ts';
import type { AgentTool, Tool, ToolSource } from '../../../protocol/tool.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { estimateRequest } from '../../../text/estimate-usage.ts';
import type { Admission } from '../../access/admission.ts';
import { plainName } from '../../agent-names.ts';
import { builtinKindOf } from '../../builtins/builtin-schemas.ts';
import { BuiltinTools } from '../../builtins/builtin-tools.ts';
import { invalid } from '../../openai-error.ts';
import { currentNote } from '../../request-log.ts';
import { Opening } from '../live/opening.ts';
import { compactsContext, isUpstreamCompaction } from '../request/compaction-items.ts';
import { type GatewayRequest, OPENAI, OPENAI_NAMES } from '../request/gateway-request.ts';
import { clientItemsIn, isForAll } from '../request/openai-items.ts';
import { isDemanded } from '../request/request-tools.ts';
import type { RunResponses } from '../runs/response-library.ts';
import {
  type Exposed,
  holdCalls,
  isSameTool,
  type RecordedRequest,
  type ResponseSpec,
  toolNamed,
} from '../runs/response-spec.ts';
import { GatewayModels } from './gateway-models.ts';
import { GatewayServers, type GatewayServersOptions } from './gateway-servers.ts';
import { type AgentTools, agentOptionsFor, assertSupported, describeFirstCall } from './request-agent.ts';
import { makeToolset, type Toolset } from './toolset.ts';

type GatewayAgentsOptions = GatewayServersOptions & {
  store: Store;
  model?: string;
  agents?: ReadonlyMap<string, Agent>;
  admission: Admission;
  fetch?: ProviderFetch;
};

type MakeOptions = { request: RecordedRequest; toolset: AgentTools; store: Store; opening?: Opening };

export type Equipment = { toolset: Toolset; close(): Promise<void> };

export class GatewayAgents {
  readonly #options: GatewayAgentsOptions;
  readonly models: GatewayModels;
  readonly #servers: GatewayServers;
  readonly #builtins: BuiltinTools;
  readonly #told = new Set<string>();

  constructor(options: GatewayAgentsOptions) {
    this.#options = options;
    const { gateway, model, fetch, agents = new Map<string, Agent>() } = options;
    const adapters = [...agents].flatMap(([name, agent]) => {
      const [first] = modelsOf(agent);
      return first === undefined ? [] : [[name, first] as const];
    });
    this.models = new GatewayModels(gateway.models, model, new Map(adapters), omitUndefined({ fetch }));
    this.#servers = new GatewayServers(options);
    const findTool = (server: string, tool: string) => this.#servers.findTool(server, tool);
    this.#builtins = new BuiltinTools(options.gateway.builtinTools, findTool, options.log);
  }

  /** The request as the model can carry it out. Throws a `ResponsesError` if it cannot. */
  resolve(request: GatewayRequest): { request: GatewayRequest; model: string } {
    const model = this.models.resolve(request.model);
    const adapter = this.models.open(model);
    const base = this.#options.agents?.get(model);
    assertSupported(adapter, request, { models: base === undefined ? [adapter] : modelsOf(base) });
    const { dispensable = [], tools } = request;
    const lacking = this.#builtins.lacking(request, adapter);
    const left = lacking.filter(({ tool }) => dispensable.includes(builtinKindOf(tool)));
    const refused = lacking.find(
      ({ tool }) => !left.some(one => one.tool === tool) || isDemanded([tool], request),
    );
    if (refused !== undefined) throw refused.why;
    if (left.length === 0) return { request, model };
    for (const { why } of left) this.#tell(`A tool was left out of a request. ${why.message}`);
    return {
      request: { ...request, tools: tools.filter(tool => !left.some(one => one.tool === tool)) },
      model,
    };
  }

  /** Once. */
  #tell(line: string): void {
    if (this.#told.has(line)) return;
    this.#told.add(line);
    this.#options.log(line);
  }

  /** `made`: the ids of the items that compactions left. The others of another provider only repeat what is there. */
  assertReadable(items: readonly Item[], model: string, made: readonly string[]): void {
    const { provider } = this.models.open(model);
    const lost = items.find(
      (item): item is ProviderItem =>
        item.type === 'provider_item' && item.opaque.provider !== provider && made.includes(item.id ?? ''),
    );
    if (lost !== undefined && !isUpstreamCompaction(lost)) {
      const message = `The conversation was compacted by its provider, so only models of "${lost.opaque.provider}" can read it. Use such a model.`;
      throw invalid('input', 'compaction_not_readable', message);
    }
    if (compactsContext(provider)) return;
    // The request's own are messages by now.
    const told = clientItemsIn(items).find(item => item.type === 'agent_message' || !isForAll(item));
    if (told !== undefined) {
      const message = `The conversation has an item of type "${told.type}", which only models of "openai:" read. Use such a model.`;
      throw invalid('input', 'conversation_not_readable', message);
    }
    if (!items.some(isUpstreamCompaction)) return;
    const message = `The conversation was compacted by OpenAI's API, which only models of "openai:" can read. Use such a model, or compact it with POST /v1/responses/compact.`;
    throw invalid('input', 'compaction_not_readable', message);
  }

  /** The request's built-in tools and servers. `used`: what its conversation has called. `close` ends its connections. */
  async equip(
    {
      request,
      model,
    }: {
      request: Pick<GatewayRequest, 'tools' | 'addedTools' | 'searchesTools' | 'names'>;
      model: string;
    },
    used: Exposed,
  ): Promise<Equipment> {
    const { tools, addedTools = [], searchesTools } = request;
    const adapter = this.models.open(model);
    const builtins = await this.#builtins.open(request, adapter);
    const { servers, close } = await this.#servers.connect(tools);
    const base = this.#options.agents?.get(model);
    const own = base && { label: plainName(base.name), tools: await toolsOf(base) };
    const searched = adapter.provider === OPENAI && adapter.capabilities.toolSearch === true;
    const options = { servers, builtins, used, searched, ...omitUndefined({ own, searchesTools }) };
    return { toolset: makeToolset([...tools, ...addedTools], options), close };
  }

  make(spec: ResponseSpec, given: MakeOptions): Agent {
    return createAgent(this.optionsFor(spec, given));
  }

  /** Whether the model is an agent of this server. */
  isAgent(model: string): boolean {
    return this.#options.agents?.has(model) === true;
  }

  /** The options of the agent that carries a request out. */
  optionsFor(spec: ResponseSpec, given: MakeOptions): AgentOptions {
    const { host, admission, agents, gateway } = this.#options;
    const { model, caller } = spec;
    const adapter = this.models.open(model);
    const base = agents?.get(model);
    const note = currentNote();
    return agentOptionsFor(spec, {
      ...given,
      host,
      models: base === undefined ? [adapter] : modelsOf(base),
      passed: this.#builtins.passed(given.request.tools, adapter),
      record(usage) {
        note?.addUsage(usage?.estimated === true ? null : usage);
        if (caller !== undefined) admission.record(caller.name, model, usage);
      },
      ...omitUndefined({ base, attempts: gateway.maxAttempts?.[model] }),
    });
  }

  async countInput(
    { request, model }: { request: GatewayRequest; model: string },
    transcript: readonly Item[],
  ): Promise<number> {
    const adapter = this.models.open(model);
    const { toolset, close } = await this.equip({ request, model }, {});
    const passed = this.#builtins.passed(request.tools, adapter);
    const { providerOptions = {} } = request;
    const base = omitUndefined({ base: this.#options.agents?.get(model) });
    const options = { ...toolset, ...base, request, adapter, transcript, passed, providerOptions };
    try {
      return await countTokens(adapter, describeFirstCall(options));
    } finally {
      await close();
    }
  }

  /** Resumes a stored run with its latest request; `undefined` if its model is unusable. */
  makeAgain(run: RunResponses): Agent | undefined {
    const spec = run.spans.at(-1)?.spec;
    if (spec === undefined || !this.#canOpen(spec.model)) return undefined;
    const { request, model } = spec;
    let equipment: Promise<Equipment> | undefined;
    const tools: ToolSource = {
      connect: async () => {
        equipment ??= this.equip(
          { request: { ...request, names: OPENAI_NAMES }, model },
          { ...spec.used, ...spec.exposed },
        );
        const { toolset } = await equipment;
        return holdCalls(sameTools(toolset, spec.exposed), spec.exposed, run.tools);
      },
      close: async () => await (await equipment)?.close(),
    };
    const toolset = { tools: [tools], exposed: spec.exposed };
    const { store } = this.#options;
    if (spec.drivenElsewhere !== true) return this.make(spec, { request, toolset, store });
    // The client waits at another server, for what begins here.
    const opening = new Opening({ streams: request.stream === true });
    opening.openForWork(run.state);
    return this.make(spec, { request, toolset, store, opening });
  }

  async begin(): Promise<void> {
    await this.#servers.begin();
  }

  async close(): Promise<void> {
    this.#builtins.close();
    await this.#servers.close();
  }

  #canOpen(model: string): boolean {
    try {
      return this.models.open(model) !== undefined;
    } catch (error) {
      this.#options.log(messageOf(error));
      return false;
    }
  }
}

function modelsOf({ options: { model = [] } }: Agent): readonly ModelAdapter[] {
  return [model].flat() as readonly ModelAdapter[];
}

async function toolsOf({ options: { tools = [] } }: Agent): Promise<readonly Tool[]> {
  const lists = (tools as readonly AgentTool[]).map(one => ('connect' in one ? one.connect() : [one]));
  return (await Promise.all(lists)).flat();
}

/** A name may now belong to another server's tool. */
function sameTools({ tools, exposed }: Toolset, before: Exposed): Tool[] {
  return tools.filter(({ name }) => isSameTool(toolNamed(exposed, name), toolNamed(before, name)));
}

/** The provider's count, or an estimate where it or the server at its URL cannot count. Rejects with a `ProviderError`. */
export async function countTokens(adapter: ModelAdapter, request: ModelRequest): Promise<number> {
  if (adapter.countTokens === undefined) return estimateRequest(request);
  try {
    return await adapter.countTokens(request, { signal: new AbortController().signal });
  } catch (error) {
    if (error instanceof ProviderError && NOT_THERE.includes(error.status)) return estimateRequest(request);
    throw error;
  }
}

const NOT_THERE: readonly (number | null)[] = [404, 405, 501];
