/**
 * Of XState, what the page needs: a machine as a tree of states, in which nothing runs. `build-page.ts` bundles this
 * module as `xstate`, and `machines/compiled/` compiles the tree as it compiles XState's own.
 *
 * T1 Each member that `machines/` and `visualizer/` read equals XState's, for any machine that `compile` supports.
 * T2 There are no actors: what would need one is not bundled.
 */

type Value = string | { [state: string]: Value };
type OneOrMore<Item> = Item | readonly Item[];
type Implementations = Readonly<Record<'actors' | 'guards' | 'actions', Readonly<Record<string, unknown>>>>;

type TransitionConfig = { target?: string; actions?: OneOrMore<unknown>; guard?: unknown; reenter?: boolean };
type StateConfig = {
  id?: string;
  type?: 'final';
  description?: string;
  output?: unknown;
  initial?: string;
  entry?: OneOrMore<unknown>;
  exit?: OneOrMore<unknown>;
  tags?: OneOrMore<string>;
  invoke?: OneOrMore<{ id: string; src: string; input?: unknown }>;
  on?: Record<string, OneOrMore<TransitionConfig>>;
  always?: OneOrMore<TransitionConfig>;
  states?: Record<string, StateConfig>;
};

type Transition = ReturnType<typeof readTransition>;
type Stored = { value: Value; context: unknown; status?: 'active' | 'done' };

class StateNode {
  readonly config: StateConfig;
  readonly machine: Machine;
  readonly key: string;
  readonly parent: StateNode | undefined;
  readonly id: string;
  readonly type: 'final' | 'compound' | 'atomic';
  readonly path: readonly string[];
  readonly states: Readonly<Record<string, StateNode>>;
  readonly description: string | undefined;
  readonly output: unknown;
  readonly entry: readonly unknown[];
  readonly exit: readonly unknown[];
  readonly tags: readonly string[];
  readonly invoke: readonly object[];
  transitions: ReadonlyMap<string, readonly Transition[]> = new Map();
  always: readonly Transition[] | undefined;

  constructor(config: StateConfig, machine: Machine, key: string, parent?: StateNode) {
    this.config = config;
    this.machine = machine;
    this.key = key;
    this.parent = parent;
    const { id, type, states = {} } = config;
    this.path = parent === undefined ? [] : [...parent.path, key];
    this.id = id ?? [machine.id, ...this.path].join('.');
    this.type = type ?? (config.states === undefined ? 'atomic' : 'compound');
    this.description = config.description;
    this.output = config.output;
    this.entry = listOf(config.entry);
    this.exit = listOf(config.exit);
    this.tags = listOf(config.tags);
    this.invoke = listOf(config.invoke);
    this.states = Object.fromEntries(
      Object.entries(states).map(([name, child]) => [name, new StateNode(child, machine, name, this)]),
    );
  }

  get initial() {
    const first = this.states[this.config.initial ?? ''];
    return { target: first === undefined ? [] : [first] };
  }

  /** Reads the edges, once all states are there. */
  connect(): void {
    const { on = {}, always } = this.config;
    const read = (event: string, edges: OneOrMore<TransitionConfig>) =>
      listOf(edges).map(edge => readTransition(this, event, edge));
    this.transitions = new Map(Object.entries(on).map(([event, edges]) => [event, read(event, edges)]));
    if (always !== undefined) this.always = read('', always);
    for (const child of Object.values(this.states)) child.connect();
  }
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
    this.root = new StateNode(config, this, this.id);
    this.root.connect();
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

/** An action is a function with what it does; no page calls it. */
const actionOf = (type: string, members: object) =>
  Object.assign(() => {}, { type: `xstate.${type}`, ...members });

export const assign = (assignment: unknown) => actionOf('assign', { assignment });
export const emit = (event: unknown) => actionOf('emit', { event });
export const enqueueActions = (collect: unknown) => actionOf('enqueueActions', { collect });
export const spawnChild = (src: string, options: object) => actionOf('spawnChild', { src, ...options });
export const stopChild = (actorRef: unknown) => actionOf('stopChild', { actorRef });
/** These are not compiled: naming them is refused. */
const cancelAction = () => actionOf('cancel', {});
export const raise = () => actionOf('raise', {});
export const sendParent = () => actionOf('sendTo', {});
export const sendTo = () => actionOf('sendTo', {});

export const fromCallback = (start: unknown) => ({ start });

export { cancelAction as cancel };
