import { isReplacement } from '../machines/context.ts';

/**
 * Of XState, what the page needs: a machine as a tree of states, in which nothing runs. `build-page.ts` bundles this
 * module as `xstate` and in the place of `compile-action.ts`, and `machines/compiled/` compiles the tree as it compiles
 * XState's own.
 *
 * T1 Each member that `machines/` and `visualizer/` read equals XState's, for any machine that `compile` supports.
 * T2 There are no actors: what would need one is not bundled.
 */

type Value = string | { [state: string]: Value };
type OneOrMore<Item> = Item | readonly Item[];
type Implementations = Readonly<Record<'actors' | 'guards' | 'actions', Readonly<Record<string, unknown>>>>;

type Invoked = { id: string; src: string; input?: unknown };
type Guard = string | { type: string; params?: unknown };
type TransitionConfig = { target?: string; actions?: OneOrMore<unknown>; guard?: Guard; reenter?: boolean };
type StateConfig = {
  id?: string;
  type?: 'final';
  description?: string;
  output?: unknown;
  initial?: string;
  entry?: OneOrMore<unknown>;
  exit?: OneOrMore<unknown>;
  tags?: OneOrMore<string>;
  invoke?: OneOrMore<Invoked>;
  on?: Record<string, OneOrMore<TransitionConfig>>;
  always?: OneOrMore<TransitionConfig>;
  states?: Record<string, StateConfig>;
};

type Transition = ReturnType<typeof readTransition>;
type Stored = { value: Value; context: unknown; status?: 'active' | 'done' };

type StateNode = {
  readonly config: StateConfig;
  readonly machine: Machine;
  readonly key: string;
  readonly parent: StateNode | undefined;
  readonly id: string;
  readonly type: 'final' | 'compound' | 'atomic';
  readonly path: readonly string[];
  readonly states: Readonly<Record<string, StateNode>>;
  readonly initial: { target: readonly StateNode[] };
  readonly description: string | undefined;
  readonly output: unknown;
  readonly entry: readonly unknown[];
  readonly exit: readonly unknown[];
  readonly tags: readonly string[];
  readonly invoke: readonly object[];
  transitions: ReadonlyMap<string, readonly Transition[]>;
  always?: readonly Transition[];
};

/** The node of a state, with those in it, but without edges: `connect` reads them. */
function makeNode(config: StateConfig, machine: Machine, key: string, parent?: StateNode): StateNode {
  const { description, output, initial = '', type = config.states ? 'compound' : 'atomic' } = config;
  const path = parent === undefined ? [] : [...parent.path, key];
  const states: Record<string, StateNode> = {};
  const node: StateNode = {
    config,
    machine,
    key,
    parent,
    id: config.id ?? [machine.id, ...path].join('.'),
    type,
    path,
    description,
    output,
    states,
    get initial() {
      return { target: [states[initial]].filter(first => first !== undefined) };
    },
    entry: listOf(config.entry),
    exit: listOf(config.exit),
    tags: listOf(config.tags),
    invoke: listOf(config.invoke),
    transitions: new Map(),
  };
  for (const [name, child] of Object.entries(config.states ?? {}))
    states[name] = makeNode(child, machine, name, node);
  return node;
}

/** Reads the edges, once all states are there. */
function connect(node: StateNode): void {
  const { on = {}, always } = node.config;
  const read = (event: string, edges: OneOrMore<TransitionConfig>) =>
    listOf(edges).map(edge => readTransition(node, event, edge));
  node.transitions = new Map(Object.entries(on).map(([event, edges]) => [event, read(event, edges)]));
  if (always !== undefined) node.always = read('', always);
  for (const child of Object.values(node.states)) connect(child);
}

class Machine {
  readonly config: StateConfig;
  readonly implementations: Implementations;
  readonly id: string;
  readonly root: StateNode;

  constructor(config: StateConfig, implementations: Implementations) {
    this.config = config;
    this.implementations = implementations;
    this.id = config.id ?? '(machine)';
    this.root = makeNode(config, this, this.id);
    connect(this.root);
  }

  resolveState({ value, context, status = 'active' }: Stored) {
    const nodes = [this.root];
    for (const name of pathOf(value)) nodes.push(childOf(nodes.at(-1) ?? this.root, name));
    const isFinal = nodes[1]?.type === 'final';
    return {
      status: isFinal ? 'done' : status,
      machine: this as Machine,
      context,
      _nodes: nodes,
      value,
      tags: new Set(nodes.flatMap(({ tags }) => tags)),
      children: {},
      hasTag(tag: string): boolean {
        return this.tags.has(tag);
      },
    };
  }
}

function readTransition(source: StateNode, eventType: string, edge: TransitionConfig) {
  const { target, actions } = edge;
  const goal = target === undefined ? undefined : [targetOf(source, target)];
  return { ...edge, actions: listOf(actions), target: goal, source, eventType };
}

/** `.name` is a state inside the source; another name is one beside it. */
function targetOf(source: StateNode, target: string): StateNode {
  const from = target.startsWith('.') ? source : (source.parent ?? source);
  return target.replace(/^\./, '').split('.').reduce(childOf, from);
}

function childOf({ id, states }: StateNode, name: string): StateNode {
  const child = states[name];
  if (child === undefined) throw new Error(`The state "${id}" has no state "${name}".`);
  return child;
}

function pathOf(value: Value): string[] {
  if (typeof value === 'string') return [value];
  return Object.entries(value).flatMap(([name, inner]) => [name, ...pathOf(inner)]);
}

function listOf<Item>(items: OneOrMore<Item> | undefined): readonly Item[] {
  if (items === undefined) return [];
  return Array.isArray(items) ? items : [items as Item];
}

export const setup = ({ actors, guards, actions }: Implementations) => ({
  createMachine: (config: StateConfig) => new Machine(config, { actors, guards, actions }),
});

export function pathToStateValue(path: readonly string[]): Value {
  const [name = '', ...inner] = path;
  return inner.length === 0 ? name : { [name]: pathToStateValue(inner) };
}

/** What the machine's functions are called with. */
export class TreeInput {
  readonly context: object;
  readonly event: Event;

  constructor(context: object, event: Event) {
    this.context = context;
    this.event = event;
  }
}

type Event = { type: string; output?: unknown };
type Expression = (given: TreeInput) => unknown;
type Computed = unknown | ((given: TreeInput, params: unknown) => unknown);

const bind =
  (value: Computed, params?: unknown): Expression =>
  given =>
    typeof value === 'function' ? value(given, params) : value;

/** An action is its operation, as `compile-action.ts` makes it of XState's actions. */
export const assign = (update: Expression) => ({
  type: 'assign',
  update,
  replaces: isReplacement(update),
});
export const emit = (notice: Computed) => ({ type: 'publish', notice: bind(notice) });
export const spawnChild = (service: string, { id, input }: { id: string; input?: unknown }) => ({
  type: 'start',
  service,
  id,
  input: bind(input),
});
export const stopChild = (id: string) => ({ type: 'stop', id });
export const enqueueActions = (run: (given: object) => void) => ({
  type: 'enqueue',
  collect(given: TreeInput): object[] {
    const ops: object[] = [];
    // What is enqueued itself is `endCancelled`, for which there are no actors.
    const enqueue = Object.assign(() => {}, {
      emit: (notice: unknown) => ops.push(emit(notice)),
      spawnChild: (...child: Parameters<typeof spawnChild>) => ops.push(spawnChild(...child)),
    });
    run({ ...given, enqueue });
    return ops;
  },
});

export const fromCallback = (start: unknown) => ({ start });

/* In the place of `machines/compiled/compile-action.ts`: what it compiles is compiled already. */

export const treeAction = (action: string, { implementations }: Machine) => implementations.actions[action];

export const treeStart = ({ src, id, input }: Invoked) => spawnChild(src, { id, input });

export function treeGuard(guard: Guard | undefined, { implementations }: Machine): Expression | null {
  if (guard === undefined) return null;
  const { type, params = undefined } = typeof guard === 'string' ? { type: guard } : guard;
  return bind(implementations.guards[type], params);
}

export function treeOutput({ id, output, machine }: StateNode) {
  const [inner, outer] = [bind(output), bind(machine.root.output)];
  const value: Expression = given =>
    outer(new TreeInput(given.context, { type: `done ${id}`, output: inner(given) }));
  return { type: 'output', value };
}
