/** The tool that reads skills as its model sees it, wherever the skills are: in a folder, or on an MCP server. */

export type KnownSkill = { name: string; description: string };

export const INSTRUCTIONS = 'SKILL.md';
export const MOST_SKILLS = 100;
export const LONGEST_FILE_BYTES = 65_536;

export const SKILL_HELP = 'The name of the skill.';
export const PATH_HELP = 'A file of the skill, such as references/forms.md. Default: its instructions.';

/** The characters of all descriptions together, which are in each request. */
const LONGEST_LIST = 16_000;

/** The paths that one result or error names. */
const MOST_LISTED = 100;

export function describeSkills(found: readonly KnownSkill[]): string {
  const room = Math.max(Math.floor(LONGEST_LIST / found.length), 1);
  const lines = found.map(({ name, description }) => {
    const isShort = description.length <= room;
    return `- ${name}: ${isShort ? description : `${description.slice(0, room).toWellFormed()}…`}`;
  });
  return `Reads a skill: instructions for a task, and files that belong to them. Before you begin a task that a skill is for, read its instructions. The skills:\n${lines.join('\n')}`;
}

export function oneLine(text: string): string {
  return text.replace(/[\s\p{C}]+/gu, ' ').trim();
}

/** Throws an `Error` that names the skills there are. */
export function findSkill<Skill extends KnownSkill>(found: readonly Skill[], wanted: string): Skill {
  const skill = found.find(({ name }) => name === wanted);
  if (skill !== undefined) return skill;
  throw new Error(`There is no skill ${quote(wanted)}, but ${found.map(({ name }) => name).join(', ')}.`);
}

/** The file that a path means, or the names of those below it. Throws an `Error` that names the files there are. */
export function findFile(
  skill: string,
  files: readonly string[],
  path: string,
): { path: string } | { listing: string } {
  if (path === INSTRUCTIONS || path === '') return { path: INSTRUCTIONS };
  if (files.includes(path)) return { path };
  const below = files.filter(file => file.startsWith(`${path}/`));
  if (below.length > 0) return { listing: `Files of this folder:\n${showPaths(below)}` };
  throw new Error(`The skill "${skill}" has no file ${quote(path)}. Its files:\n${showPaths(files)}`);
}

/** Instructions, and the other files of the skill. */
export function withFiles(instructions: string, files: readonly string[]): string {
  const others = files.filter(file => file !== INSTRUCTIONS);
  if (others.length === 0) return instructions.trim();
  return `${instructions.trim()}\n\nFiles of this skill:\n${showPaths(others)}`;
}

/** Without `./` at its beginning and `/` at its end. */
export function plainPath(path: string): string {
  let start = 0;
  while (path.startsWith('./', start)) {
    start += 2;
    while (path[start] === '/') start += 1;
  }
  let end = path.length;
  while (end > start && path[end - 1] === '/') end -= 1;
  return path.slice(start, end);
}

function showPaths(paths: readonly string[]): string {
  const more = paths.length > MOST_LISTED ? [`and ${paths.length - MOST_LISTED} more`] : [];
  return [...paths.slice(0, MOST_LISTED), ...more].join('\n');
}

/** At most as much of a text from outside as a name needs. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 500 ? `${text.slice(0, 500)}…` : text);
}
