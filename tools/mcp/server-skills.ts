import type { CallToolResult, Client, RequestOptions } from '@modelcontextprotocol/client';
import type { Skill, SkillsClient } from '@modelcontextprotocol/client/ext/skills';
import { messageOf } from '../../protocol/error.ts';
import {
  describeSkills,
  findFile,
  findSkill,
  INSTRUCTIONS,
  type KnownSkill,
  LONGEST_FILE_BYTES,
  MOST_SKILLS,
  oneLine,
  PATH_HELP,
  plainPath,
  SKILL_HELP,
  withFiles,
} from '../skill-tool.ts';
import type { ServerOffer } from './server-tool.ts';

/** How the model reads the skills of a server. */
export type McpSkills = {
  /** The name of the tool. Default `read_skill`. */
  name?: string;
  /**
   * Whether the skills are your own, so that what they say is as trusted as your instructions. Default `false`: the tool
   * has the tag `untrusted`.
   */
  trusted?: boolean;
};

/** `files`: their paths in the skill, and what the server says of each. */
type ServerSkill = KnownSkill & { entry: Skill; files: ReadonlyMap<string, { uri: string; size: number }> };

type OfferOptions = McpSkills & {
  /** Called when a file is not as the server listed it. */
  onChanged(): void;
};

/**
 * The tool that reads skills of a server (https://modelcontextprotocol.io/seps/2640-skills-extension), in the form of
 * `skills()`: names and descriptions are in its own, and files are read when the model asks. Each file is checked against the
 * size and digest of the list that the model has seen. No offer for a server without skills. Skills whose files the server
 * does not list are left out.
 * @internal
 */
export async function offerSkills(
  client: Client,
  { name = 'read_skill', onChanged, ...trust }: OfferOptions,
  options: RequestOptions,
): Promise<{ offers: ServerOffer[]; ttlMs: number | undefined }> {
  const { SkillsClient } = await import('@modelcontextprotocol/client/ext/skills');
  const listing = new SkillsClient(client, { skipInvalid: true });
  if (!listing.supported) return { offers: [], ttlMs: undefined };
  const { skills, ttlMs } = await listing.list({}, options);
  const found = readEntries(skills);
  if (found.length === 0) return { offers: [], ttlMs };
  const offer: ServerOffer = {
    described: {
      name,
      description: describeSkills(found),
      inputSchema: {
        type: 'object',
        properties: {
          skill: { type: 'string', description: SKILL_HELP },
          path: { type: 'string', description: PATH_HELP },
        },
        required: ['skill'],
        additionalProperties: false,
      },
    },
    sideEffect: 'none',
    tags: skillTags(trust),
    version: skills,
    ask: async (asking, { input: { skill, path = INSTRUCTIONS } }, how) => {
      try {
        const wanted = findSkill(found, String(skill));
        return said(await readFile(new SkillsClient(asking), wanted, plainPath(String(path)), how));
      } catch (error) {
        if (!isRefusal(error)) throw error;
        if ('reason' in error) onChanged();
        return { ...said(messageOf(error)), isError: true };
      }
    },
  };
  return { offers: [offer], ttlMs };
}

/** The tags of the tool. @internal */
export function skillTags({ trusted = false }: Pick<McpSkills, 'trusted'>): string[] {
  return trusted ? [] : ['untrusted'];
}

function said(text: string): CallToolResult {
  return { content: [{ type: 'text', text }] };
}

/** The server did not fail: there is no such file, or it is not as it was listed. */
function isRefusal(error: unknown): error is Error {
  return error instanceof Error && (!('code' in error) || error.name === 'SkillVerificationError');
}

function readEntries(skills: readonly Skill[]): ServerSkill[] {
  const found = new Map<string, ServerSkill>();
  for (const entry of skills) {
    if (entry.resources === 'dynamic' || found.size === MOST_SKILLS) continue;
    const { name } = entry.frontmatter;
    const description = oneLine(entry.frontmatter.description);
    const root = entry.uri.slice(0, -INSTRUCTIONS.length);
    const files = entry.resources.flatMap(({ uri, size }) => {
      const path = uri.startsWith(root) ? pathOf(uri.slice(root.length)) : undefined;
      return path === undefined ? [] : [[path, { uri, size }] as const];
    });
    if (!found.has(name)) found.set(name, { name, description, entry, files: new Map(files) });
  }
  return [...found.values()].sort((one, other) => (one.name < other.name ? -1 : 1));
}

/** `undefined` for a name that could hide in a list. */
function pathOf(encoded: string): string | undefined {
  try {
    const path = decodeURIComponent(encoded);
    return /\p{C}/u.test(path) ? undefined : path;
  } catch {
    return undefined;
  }
}

async function readFile(
  client: SkillsClient,
  { name, entry, files }: ServerSkill,
  wanted: string,
  options: RequestOptions,
): Promise<string> {
  const paths = [...files.keys()].sort();
  const found = findFile(name, paths, wanted);
  if ('listing' in found) return found.listing;
  const { path } = found;
  const known = files.get(path);
  const described = `The file ${JSON.stringify(path)} of the skill "${name}"`;
  if (known === undefined) throw new Error(`${described} is not listed. It was not read.`);
  if (known.size > LONGEST_FILE_BYTES)
    throw new Error(`${described} has more than ${LONGEST_FILE_BYTES} bytes. It was not read.`);
  const how = { ...options, allowInputRequired: false, cacheMode: 'bypass' } as const;
  const { bytes, body } = await client.read(entry, known.uri, how);
  if (body !== undefined) return withFiles(body, paths);
  try {
    if (!bytes.includes(0)) return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {}
  throw new Error(`${described} is not text in UTF-8. It was not read.`);
}
