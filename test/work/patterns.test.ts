import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseSync } from 'vite';
import { describe, expect, it } from 'vitest';
import { sampled } from '../support/sample.ts';
import { MOST_STEPS, StepCounter } from '../support/work/count-steps.ts';
import { type PatternNode, parsePattern } from '../support/work/parse-pattern.ts';

const ROOT = join(import.meta.dirname, '../..');
const ROOMS = [
  'protocol',
  'machines',
  'engine',
  'adapters',
  'tools',
  'stores',
  'text',
  'server',
  'cli',
  'visualizer',
  'examples',
];

/** Files with patterns that take more than linear time, each with the limit of the text that they match. */
const BOUNDED: ReadonlyMap<string, string> = new Map(
  Object.entries({
    'examples/steward/heading-anchors.ts': 'reads 1,000 characters of a heading',
    'examples/steward/instructions.ts': 'reads 1,000 characters of a folder',
    'examples/steward/markdown-blocks.ts': 'a line of more than 2,000 characters is prose',
    'examples/steward/markdown-links.ts': 'reads 20,000 characters of a paragraph',
    'examples/research/read-sections.ts': 'a line of more than 1,000 characters is not a heading',
  }),
);

type Found = { file: string; source: string; flags: string };

function findPatterns(): Found[] {
  return ROOMS.flatMap(room => globSync(`${room}/**/*.ts`, { cwd: ROOT })).flatMap(file => {
    const { program } = parseSync(file, readFileSync(join(ROOT, file), 'utf8'), { lang: 'ts' });
    return literalsIn(program).map(literal => ({ file, ...literal }));
  });
}

function literalsIn(node: unknown): { source: string; flags: string }[] {
  if (typeof node !== 'object' || node === null) return [];
  if ('regex' in node && typeof node.regex === 'object' && node.regex !== null) {
    const { pattern, flags } = node.regex as { pattern: string; flags: string };
    return [{ source: pattern, flags }];
  }
  return Object.values(node).flatMap(literalsIn);
}

/** Texts that parts of the pattern match: what an attacker would repeat. */
function samplesOf(node: PatternNode, flags: string): string[] {
  switch (node.type) {
    case 'char':
      return [sampleOf(node.source, flags)];
    case 'sequence': {
      const parts = node.nodes.map(each => samplesOf(each, flags));
      const whole = parts.map(([first = '']) => first);
      const prefixes = whole.map((_, index) => whole.slice(0, index + 1).join(''));
      return [whole.join(''), ...parts.flat(), ...prefixes];
    }
    case 'choice':
      return node.nodes.flatMap(each => samplesOf(each, flags));
    case 'repeat':
    case 'group':
      return samplesOf(node.node, flags);
    case 'look':
      return node.negative ? [''] : samplesOf(node.node, flags);
    default:
      return [''];
  }
}

const ALPHABET = [
  'a',
  'A',
  '1',
  ' ',
  '\n',
  '/',
  '*',
  '`',
  '[',
  '(',
  '<',
  '"',
  "'",
  '.',
  ',',
  ';',
  '=',
  '\\',
  '\t',
];

function sampleOf(source: string, flags: string): string {
  const pattern = new RegExp(`^${source}$`, flags.replace(/[gym]/g, ''));
  const found = ALPHABET.find(char => pattern.test(char));
  if (found !== undefined) return found;
  for (let code = 0; code < 0x3000; code += 1) {
    if (pattern.test(String.fromCharCode(code))) return String.fromCharCode(code);
  }
  return '';
}

function attacksOn({ source, flags }: Found): { prefix: string; pump: string; suffix: string }[] {
  const pieces = [...new Set(samplesOf(parsePattern(source), flags))].filter(piece => piece !== '');
  const pumps = pieces.toSorted((one, other) => one.length - other.length).slice(0, 24);
  const prefixes = ['', ...pieces.slice(0, 3), ...pieces.slice(-4)];
  return prefixes.flatMap(prefix =>
    pumps.flatMap(pump => ['', '\u0001', '\n!'].map(suffix => ({ prefix, pump, suffix }))),
  );
}

function stepsOf(
  pattern: Found,
  { prefix, pump, suffix }: ReturnType<typeof attacksOn>[number],
  length: number,
) {
  const counter = new StepCounter(pattern.source, pattern.flags);
  counter.findAll(prefix + pump.repeat(Math.ceil(length / pump.length)) + suffix);
  return counter.steps;
}

const LENGTH = 200;
/** Fewer steps per character of a short text than this count as linear: quadratic growth needs far more. */
const CHEAP_STEPS = 8;

/** Whether nothing in a pattern repeats often, so that the steps for each position of a text are bounded. */
function isShort(node: PatternNode): boolean {
  switch (node.type) {
    case 'sequence':
    case 'choice':
      return node.nodes.every(isShort);
    case 'repeat':
      return node.most <= 3 && isShort(node.node);
    case 'group':
    case 'look':
      return isShort(node.node);
    default:
      return node.type !== 'back';
  }
}

function slowest(pattern: Found): string | undefined {
  if (isShort(parsePattern(pattern.source))) return undefined;
  const attacks = attacksOn(pattern);
  for (const attack of sampled(attacks, Math.ceil(attacks.length / 3))) {
    const short = stepsOf(pattern, attack, LENGTH);
    if (short < CHEAP_STEPS * LENGTH) continue;
    const long = stepsOf(pattern, attack, 2 * LENGTH);
    if (long > 3 * short || long > MOST_STEPS) {
      return `${JSON.stringify(attack)}: ${short} steps, then ${long} for twice the text`;
    }
  }
  return undefined;
}

describe('every pattern in the sources', () => {
  it('takes at most three times the steps for twice the text, whichever part of the pattern is repeated', () => {
    const patterns = new Map<string, Found>();
    for (const pattern of findPatterns()) {
      if (!BOUNDED.has(pattern.file)) patterns.set(`/${pattern.source}/${pattern.flags}`, pattern);
    }
    const slow = [...patterns].flatMap(([name, pattern]) => {
      const why = slowest(pattern);
      return why === undefined ? [] : [`${pattern.file} ${name} ${why}`];
    });
    expect(patterns.size).toBeGreaterThan(100);
    expect(slow).toEqual([]);
  });
});

describe('the step counter', () => {
  it.each([
    ['^(a+)+$', ''],
    ['[a-z][a-z0-9+.-]*:\\/\\/', 'g'],
    ['\\s+$', ''],
    ['\\b(?:sk|rk)-[A-Za-z0-9_-]*\\*[A-Za-z0-9*_-]*', 'g'],
    ['<!--.*?-->', 'g'],
    ['(`+[^`]+`+)', ''],
  ])('reports that /%s/ is slow', (source, flags) => {
    expect(slowest({ file: '', source, flags })).toBeDefined();
  });

  it.each([
    ['(\\d+)-(\\d+)', 'order 12-345'],
    ['^(```|~~~)[\\s\\S]*?^\\1', '~~~\nab\n```\n~~~ c', 'm'],
    ['a{2,3}?b|(?<=x)c+(?!d)', 'aab xccd'],
    ['\\bsk-(?:\\w{3}|\\w{0,2}\\*)[\\w*]*', 'a sk-ab*cd e'],
  ])('matches /%s/ exactly where the engine does', (source, text, flags = '') => {
    const match = new StepCounter(source, flags).find(text, 0);
    const engine = new RegExp(source, flags).exec(text);
    expect(match?.index).toBe(engine?.index);
    expect(text.slice(match?.index, match?.end)).toBe(engine?.[0]);
  });
});
