/**
 * `skills()`: a tool with which a model reads skills. A skill is a folder with instructions in `SKILL.md`, and with the
 * files that they name; its form is that of https://agentskills.io/specification.
 */
import { constants, lstatSync, readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { open, readdir, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import * as z from 'zod';
import { EngineError } from '../protocol/error.ts';
import { omitUndefined } from '../protocol/json.ts';
import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { Tool } from '../protocol/tool.ts';
import {
  describeSkills,
  findFile,
  findSkill,
  INSTRUCTIONS,
  LONGEST_FILE_BYTES,
  MOST_SKILLS,
  oneLine,
  PATH_HELP,
  plainPath,
  quote,
  SKILL_HELP,
  withFiles,
} from './skill-tool.ts';
import { tool } from './tool.ts';

export type SkillsOptions = {
  /** The name of the tool, for an agent with the skills of several folders. Default `read_skill`. */
  name?: string;
  /**
   * Whether the skills are your own, so that what they say is as trusted as your instructions. Default `false`: the tool
   * has the tag `untrusted`.
   */
  trusted?: boolean;
};

type Skill = { name: string; description: string; folder: string };

const NAMES = optionNames<SkillsOptions>()('name trusted');

const MOST_FILES = 1_000;
const DEEPEST = 8;

/** The limits of the specification, in characters. */
const LONGEST_NAME = 64;
const LONGEST_DESCRIPTION = 1_024;

/**
 * Creates the tool that reads the skills of a folder: `{ skill }` reads the instructions of one and lists its files, and
 * `{ skill, path }` reads a file. Its description has the names and descriptions of the skills, as they are now: a skill
 * that is added later is not in it, so that the prompt does not change. Instructions and files are read when the model asks.
 *
 * Only text files of at most 64 KiB are read; files and folders whose names begin with a dot, and symbolic links, are not.
 * Nothing is executed. A relative `folder` is below the working directory.
 * Throws an `EngineError` `agent-invalid` if there is no skill, or one whose `SKILL.md` is invalid.
 *
 * @example
 * const agent = createAgent({ name: 'clerk', model, tools: [skills('./skills', { trusted: true })] });
 */
export function skills(
  folder: string | URL,
  options: SkillsOptions = {},
): Tool<string, { skill: string; path?: string | undefined }, string> {
  refuseUnknownOptions('skills', options, NAMES);
  const { name = 'read_skill', trusted = false } = options;
  const found = findSkills(folder instanceof URL ? fileURLToPath(folder) : folder);
  return tool({
    name,
    description: describeSkills(found),
    input: z.strictObject({
      skill: z.string().describe(SKILL_HELP),
      path: z.optional(z.string()).describe(PATH_HELP),
    }),
    sideEffect: 'none',
    tags: trusted ? [] : ['untrusted'],
    run: async ({ skill: wanted, path = INSTRUCTIONS }) => {
      return await readSkill(findSkill(found, wanted), plainPath(path));
    },
  });
}

function findSkills(folder: string): Skill[] {
  const root = attempt(`cannot read the folder ${quote(folder)}`, () => realpathSync(folder));
  const entries = attempt(`cannot read the folder ${quote(folder)}`, () => readdirSync(root));
  const found = entries
    .toSorted()
    .filter(isPlainName)
    .flatMap(name => readHead(join(root, name), name) ?? []);
  if (found.length === 0)
    throwInvalid(
      `no folder in ${quote(root)} has a ${INSTRUCTIONS}. Pass the folder that has the folders of the skills.`,
    );
  if (found.length > MOST_SKILLS)
    throwInvalid(`${quote(root)} has ${found.length} skills; at most ${MOST_SKILLS} are read.`);
  return found;
}

/** `undefined` for anything but a skill. */
function readHead(folder: string, name: string): Skill | undefined {
  const file = join(folder, INSTRUCTIONS);
  const isFolder = statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true;
  const instructions = isFolder ? lstatSync(file, { throwIfNoEntry: false }) : undefined;
  if (instructions === undefined) return undefined;
  for (const path of [folder, file])
    if (lstatSync(path).isSymbolicLink())
      throwInvalid(`${quote(path)} is a symbolic link, and links are not followed. Put a copy in its place.`);
  if (!instructions.isFile()) throwInvalid(`${quote(file)} is not a file.`);
  if (instructions.size > LONGEST_FILE_BYTES)
    throwInvalid(`${quote(file)} has ${instructions.size} bytes; at most ${LONGEST_FILE_BYTES} are read.`);
  const [head] = divide(readFileSync(file, 'utf8'));
  if (head === undefined)
    throwInvalid(
      `${quote(file)} does not begin with front matter: "---", lines with "name" and "description", "---".`,
    );
  const { name: given, description } = attempt(`the front matter of ${quote(file)} cannot be read`, () =>
    readFields(head),
  );
  if (given !== name)
    throwInvalid(
      `${quote(file)}: expected "name" to be the name of its folder, ${quote(name)}, got ${JSON.stringify(given)}.`,
    );
  if (name.length > LONGEST_NAME || !/^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(name))
    throwInvalid(
      `${quote(file)}: expected "name" to be at most ${LONGEST_NAME} lower-case letters and digits, with single "-" between them.`,
    );
  const text = oneLine(description ?? '');
  if (text === '' || text.length > LONGEST_DESCRIPTION)
    throwInvalid(
      `${quote(file)}: expected "description" to be a text of at most ${LONGEST_DESCRIPTION} characters.`,
    );
  return { name, description: text, folder };
}

/** Front matter and what follows it. */
function divide(text: string): [head: string | undefined, body: string] {
  const [all = '', head] = /^\u{feff}?---[ \t]*\r?\n([\s\S]*?)\r?\n---[ \t]*(?:\r?\n|$)/u.exec(text) ?? [];
  return [head, text.slice(all.length)];
}

/** Of the lines of front matter, the two fields that are used. They are texts as YAML writes them; other fields may be anything. */
function readFields(head: string): { name?: string; description?: string } {
  const fields = new Map<string, string[]>();
  let lines: string[] | undefined;
  for (const line of head.split(/\r?\n/)) {
    const [, name, value = ''] = /^([\w-]+):(?![^ \t])(.*)$/.exec(line) ?? [];
    if (name === undefined) {
      if (lines === undefined ? !/^\s*(?:#.*)?$/.test(line) : !/^(?:[\s#-]|$)/.test(line))
        throw new Error(`expected a line such as "name: value", got ${quote(line)}.`);
      lines?.push(line);
      continue;
    }
    if (fields.has(name)) throw new Error(`"${name}" is there twice.`);
    lines = [value.trimStart()];
    fields.set(name, lines);
  }
  const read = (name: string) => {
    const found = fields.get(name);
    return found && readScalar(name, found);
  };
  return omitUndefined({ name: read('name'), description: read('description') });
}

/** A text of YAML: plain, in quotes, or as a block. Its line breaks become spaces, and in plain text comments are left out. */
function readScalar(field: string, [first = '', ...rest]: readonly string[]): string {
  const join = (lines: readonly string[]) =>
    lines
      .map(line => line.trim())
      .join(' ')
      .trim();
  if (/^[|>][+-]?\s*(?:#.*)?$/.test(first)) return join(rest);
  const [, double, single] =
    /^(?:"((?:[^"\\]|\\.)*)"|'((?:[^']|'')*)')\s*(?:#.*)?$/.exec(join([first, ...rest])) ?? [];
  if (double !== undefined) return String(JSON.parse(`"${double}"`));
  if (single !== undefined) return single.replaceAll("''", "'");
  const plain = join([first, ...rest].map(line => line.replace(/(?:^|\s)#.*/, '')));
  if (/^(?:["',[\]{}&*!|>%@`]|[-?:](?:\s|$))/.test(plain) || /:(?:\s|$)/.test(plain))
    throw new Error(`"${field}" is not a plain text. Put it in quotes.`);
  return plain;
}

async function readSkill({ name, folder }: Skill, path: string): Promise<string> {
  const files = await listFiles(folder);
  const found = findFile(name, files, path);
  if ('listing' in found) return found.listing;
  if (found.path !== INSTRUCTIONS) return await readText(name, folder, found.path);
  const [, body] = divide(await readText(name, folder, INSTRUCTIONS));
  return withFiles(body, files);
}

/** The paths of all files below a folder, with `/`. Only these are read, so that no path leads out of it. */
async function listFiles(root: string): Promise<string[]> {
  const files: string[] = [];
  const visit = async (folder: string, depth: number): Promise<void> => {
    const entries = await readdir(join(root, folder), { withFileTypes: true });
    for (const entry of entries.toSorted((one, other) => (one.name < other.name ? -1 : 1))) {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (!isPlainName(entry.name)) continue;
      if (entry.isDirectory() && depth < DEEPEST) await visit(path, depth + 1);
      if (entry.isFile()) files.push(path);
      if (files.length > MOST_FILES)
        throw new Error(`The skill has more than ${MOST_FILES} files. Nothing was read.`);
    }
  };
  await visit('', 1);
  return files;
}

async function readText(skill: string, folder: string, path: string): Promise<string> {
  const file = join(folder, path);
  const described = `The file ${quote(path)} of the skill "${skill}"`;
  if ((await realpath(file).catch(() => undefined)) !== file)
    throw new Error(`${described} is gone, or behind a symbolic link. It was not read.`);
  const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants;
  const handle = await open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  const bytes = await buffer(handle.createReadStream({ end: LONGEST_FILE_BYTES }));
  if (bytes.length > LONGEST_FILE_BYTES)
    throw new Error(`${described} has more than ${LONGEST_FILE_BYTES} bytes. It was not read.`);
  try {
    if (!bytes.includes(0)) return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {}
  throw new Error(`${described} is not text in UTF-8. It was not read.`);
}

function isPlainName(name: string): boolean {
  return !name.startsWith('.') && !/\p{C}/u.test(name);
}

function attempt<Value>(failure: string, act: () => Value): Value {
  try {
    return act();
  } catch (error) {
    throwInvalid(`${failure}: ${error instanceof Error ? error.message : error}`);
  }
}

function throwInvalid(problem: string): never {
  throw new EngineError('agent-invalid', `skills: ${problem}`);
}
