import * as z from 'zod';
import type { Item } from '../../agent/index.ts';
import type { Section } from './read-sections.ts';

/** One query with the ids it found, the best first. */
type Searched = { query: string; ids: string[] };

/** What the stand-in knows about the current question: the tool results since it was asked. */
export type Research = { question: string; searched: Searched[]; read: Section[]; tried: string[] };

const querySchema = z.object({ query: z.string() });
const idSchema = z.object({ id: z.string() });
const hitsSchema = z.array(idSchema);
const sectionSchema = z.object({ id: z.string(), title: z.string(), text: z.string() });

/** Reads a transcript. Ignores everything except calls and results of `search` and `read`. */
export function readResearch(transcript: readonly Item[]): Research {
  const asked = transcript.findLastIndex(item => item.type === 'message' && item.role === 'user');
  const research: Research = { question: textOf(transcript[asked]), searched: [], read: [], tried: [] };
  const calls = new Map<string, { name: string; input: unknown }>();
  for (const item of transcript.slice(asked + 1)) {
    if (item.type === 'tool_call') calls.set(item.callId, { name: item.name, input: parse(item.arguments) });
    if (item.type !== 'tool_result') continue;
    const { name, input } = calls.get(item.callId) ?? {};
    if (name === 'search') {
      const { data: asked } = querySchema.safeParse(input);
      const { data: hits = [] } = hitsSchema.safeParse(item.output);
      research.searched.push({ query: asked?.query ?? '', ids: hits.map(({ id }) => id) });
    }
    if (name === 'read') {
      const { data: asked } = idSchema.safeParse(input);
      const { data: section } = sectionSchema.safeParse(item.output);
      if (asked !== undefined) research.tried.push(asked.id);
      if (section !== undefined) research.read.push(section);
    }
  }
  return research;
}

function textOf(item: Item | undefined): string {
  if (item?.type !== 'message') return '';
  return item.content.map(part => (part.type === 'text' ? part.text : '')).join('');
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
