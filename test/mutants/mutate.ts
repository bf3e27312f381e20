import { type ESTree, parseSync, Visitor } from 'rolldown/utils';

/** A change of one place of a source file. */
export type Mutant = {
  /** Relative to the checkout. */
  file: string;
  line: number;
  operator: string;
  /** The changed lines on one line, before and after. */
  from: string;
  to: string;
  /** The whole file with the change. */
  source: string;
};

type Range = { start: number; end: number };

/** Calls that only let tests crash a process. */
const FAULT_POINT = /\.reach\?\.\(/;

const BOUNDS: Readonly<Record<string, string>> = { '<': '<=', '<=': '<', '>': '>=', '>=': '>' };

/** Returns the mutants of a TypeScript file, in the order of their places. Each one parses. */
export function mutantsOf(file: string, source: string): Mutant[] {
  const mutants: Mutant[] = [];
  const seen = new Set([source]);
  const replace = (operator: string, { start, end }: Range, text: string) => {
    const changed = source.slice(0, start) + text + source.slice(end);
    if (seen.has(changed) || parseSync(file, changed).errors.length > 0) return;
    seen.add(changed);
    const first = source.lastIndexOf('\n', start - 1) + 1;
    const next = source.indexOf('\n', end);
    const last = next === -1 ? source.length : next;
    const line = source.slice(0, start).split('\n').length;
    const from = onOneLine(source.slice(first, last));
    const to = onOneLine(changed.slice(first, last + changed.length - source.length));
    mutants.push({ file, line, operator, from, to, source: changed });
  };
  const swap = (operator: string, { left, right }: { left: Range; right: Range }, [one, other]: string[]) => {
    const start = source.indexOf(one ?? '', left.end);
    if (start < right.start) replace(operator, { start, end: start + (one ?? '').length }, other ?? '');
  };
  const negate = (test: Range) =>
    replace('negate a condition', test, `!(${source.slice(test.start, test.end)})`);

  /**
   * Where a change does not count: an `await` of a returned call changes only stack traces, a constructor has to run, and
   * the names of options are keys.
   */
  const spared = new Set<number>();
  /** Of each function around the place, whether it returns a value. */
  const returns: boolean[] = [];
  let tries = 0;
  let types = 0;
  const leave = ({ body }: ESTree.Function) => {
    if (returns.pop() || body?.type !== 'BlockStatement' || body.body.length < 2) return;
    if (!spared.has(body.start))
      replace('return early', { start: body.start, end: body.start + 1 }, '{ return;');
  };
  const spareAwait = (returned: ESTree.Expression) => {
    const { type, start } = withoutCast(returned);
    if (type === 'AwaitExpression') spared.add(start);
  };
  const enter = () => void returns.push(false);

  new Visitor({
    FunctionDeclaration: enter,
    FunctionExpression: enter,
    ArrowFunctionExpression: ({ body }) => {
      enter();
      if (body.type !== 'BlockStatement') spareAwait(body);
    },
    'FunctionDeclaration:exit': leave,
    'FunctionExpression:exit': leave,
    'ArrowFunctionExpression:exit': () => void returns.pop(),
    MethodDefinition: ({ kind, value }) => {
      if (kind === 'constructor' && value.body !== null) spared.add(value.body.start);
    },
    ReturnStatement: ({ argument }) => {
      if (argument === null) return;
      returns[returns.length - 1] = true;
      if (tries === 0) spareAwait(argument);
    },
    TryStatement: () => {
      tries += 1;
    },
    'TryStatement:exit': () => {
      tries -= 1;
    },
    TSLiteralType: () => {
      types += 1;
    },
    'TSLiteralType:exit': () => {
      types -= 1;
    },
    IfStatement: node => {
      const { test, consequent, alternate } = node;
      negate(test);
      if (alternate === null) replace('drop a guard', node, ';');
      else replace('drop an else', { start: consequent.end, end: alternate.end }, '');
    },
    ConditionalExpression: ({ test }) => negate(test),
    AwaitExpression: ({ start, argument }) => {
      if (!spared.has(start)) replace('drop an await', { start, end: argument.start }, '');
    },
    ExpressionStatement: node => {
      if (hasEffect(node.expression) && !FAULT_POINT.test(source.slice(node.start, node.end)))
        replace('drop a statement', node, ';');
    },
    BinaryExpression: node => {
      const bound = BOUNDS[node.operator];
      if (bound !== undefined) swap('move a bound', node, [node.operator, bound]);
    },
    LogicalExpression: node => {
      if (node.operator === '&&') swap('swap and/or', node, ['&&', '||']);
      if (node.operator === '||') swap('swap and/or', node, ['||', '&&']);
    },
    ObjectExpression: ({ properties }) => {
      const values = properties.flatMap(one => (one.type === 'Property' ? [one.value] : []));
      if (values.every(isTrue)) for (const { start } of values) spared.add(start);
    },
    Literal: ({ start, end, value }) => {
      if (types > 0 || spared.has(start)) return;
      if (typeof value === 'boolean') replace('change a literal', { start, end }, String(!value));
      if (typeof value === 'number') replace('change a literal', { start, end }, String(value + 1));
    },
  }).visit(parseSync(file, source).program);
  return mutants;
}

/** Objects with no other values are sets of names. */
function isTrue(expression: ESTree.Expression): boolean {
  return expression.type === 'Literal' && expression.value === true;
}

/** The expression in parentheses and type assertions. */
function withoutCast(expression: ESTree.Expression): ESTree.Expression {
  const isWrapped = expression.type === 'ParenthesizedExpression' || expression.type === 'TSAsExpression';
  return isWrapped ? withoutCast(expression.expression) : expression;
}

/** Whether an expression that stands alone does something; `super()` has to stay. */
function hasEffect(expression: ESTree.Expression): boolean {
  switch (expression.type) {
    case 'AwaitExpression':
    case 'UnaryExpression':
      return hasEffect(expression.argument);
    case 'CallExpression':
      return expression.callee.type !== 'Super';
    case 'AssignmentExpression':
    case 'UpdateExpression':
    case 'ChainExpression':
      return true;
    default:
      return false;
  }
}

function onOneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}
