// What a model no longer accepts: written as what means the same, or refused by name before the request.

import { type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { type ProviderContext, unsupported } from '../http/provider-errors.ts';
import { objectOf, objectsOf, textIn } from '../turn/json-access.ts';
import type { ModelFamily } from './model-family.ts';

/**
 * Returns the body in the form that the model accepts: a thinking budget becomes an effort, thinking that cannot be
 * turned off the least of it, and sampling settings that are the default are left out.
 */
export function acceptedForm(body: JsonObject, family: ModelFamily): JsonObject {
  const form = acceptedThinking(body, family);
  if (family.sampling === 'none') {
    if (form.temperature === 1) delete form.temperature;
    if (form.top_p === 1 || form.top_p === 0.99) delete form.top_p;
  }
  return form;
}

function acceptedThinking(body: JsonObject, family: ModelFamily): JsonObject {
  const { type, budget_tokens, ...more } = objectOf(body.thinking);
  const modes: readonly JsonValue[] = family.thinkingModes;
  const isRefused = family.known && type !== undefined && !modes.includes(type);
  if (type === 'enabled' && isRefused && modes.includes('adaptive')) {
    const output_config = { effort: effortFor(budget_tokens), ...objectOf(body.output_config) };
    return { ...body, thinking: { type: 'adaptive', ...more }, output_config };
  }
  if (type === 'disabled' && isRefused) return withoutThinking(body, family);
  // These two take no other member.
  if (type === 'disabled' || type === 'between_tools') return { ...body, thinking: { type } };
  return { ...body };
}

/** Turns thinking off, or as far down as the model allows. */
export function withoutThinking(body: JsonObject, { thinkingModes }: ModelFamily): JsonObject {
  const mode = thinkingModes.find(accepted => accepted === 'disabled' || accepted === 'between_tools');
  if (mode !== undefined) return { ...body, thinking: { type: mode } };
  const { display, block_binding } = objectOf(body.thinking);
  const thinking = { type: 'adaptive', ...omitUndefined({ display, block_binding }) };
  return { ...body, thinking, output_config: { effort: 'low', ...objectOf(body.output_config) } };
}

/** Thinking budgets in tokens by effort. The API requires at least `LEAST_BUDGET`. */
export const BUDGETS: Readonly<Record<string, number>> = {
  minimal: 1_024,
  low: 4_096,
  medium: 10_000,
  high: 20_000,
  xhigh: 28_000,
  max: 28_000,
};
export const LEAST_BUDGET = 1_024;

function effortFor(budget: JsonValue | undefined): string {
  const fits = (effort: string) => typeof budget === 'number' && budget <= (BUDGETS[effort] ?? 0);
  return ['low', 'medium'].find(fits) ?? (typeof budget === 'number' ? 'high' : 'medium');
}

export function thinksIn(body: JsonObject, family: ModelFamily): boolean {
  const { type } = objectOf(body.thinking);
  return type === undefined ? family.thinksByDefault : type === 'enabled' || type === 'adaptive';
}

/**
 * Throws for what the provider would refuse, with the option, the model and what to do instead. Nothing is refused for
 * models that the table of families does not know.
 */
export function assertAccepted(body: JsonObject, family: ModelFamily, context: ProviderContext): void {
  const problem = family.known ? problemOf(body, family) : undefined;
  if (problem === undefined) return;
  const [option, instead] = problem;
  throw unsupported(`the model ${context.model} does not accept ${option}. ${instead}`, context);
}

type Problem = readonly [option: string, instead: string];

function problemOf(body: JsonObject, family: ModelFamily): Problem | undefined {
  return (
    samplingProblem(body, family) ??
    choiceProblem(body, family) ??
    effortProblem(body, family) ??
    prefillProblem(body, family)
  );
}

function samplingProblem(body: JsonObject, family: ModelFamily): Problem | undefined {
  const sampling = ['temperature', 'top_p', 'top_k'].filter(name => body[name] !== undefined);
  const written = (names: readonly string[]) =>
    names.map(name => `${name} (${JSON.stringify(body[name])})`).join(' and ');
  if (family.sampling === 'none') {
    if (sampling.length === 0) return undefined;
    return [
      written(sampling),
      'Leave it out, and say in the instructions how varied or how exact the answers should be.',
    ];
  }
  const { temperature, top_p } = body;
  if (family.sampling === 'one' && temperature !== undefined && top_p !== undefined) {
    return [`${written(['temperature', 'top_p'])} together`, 'Set one of them.'];
  }
  if (!thinksIn(body, family)) return undefined;
  const refused = sampling.filter(name =>
    name === 'top_p' ? typeof top_p === 'number' && top_p < 0.95 : name === 'top_k' || temperature !== 1,
  );
  if (refused.length === 0) return undefined;
  return [
    `${written(refused)} while it thinks`,
    "Leave it out, or turn thinking off (reasoningEffort: 'none').",
  ];
}

function choiceProblem(body: JsonObject, family: ModelFamily): Problem | undefined {
  const { type } = objectOf(body.tool_choice);
  if ((type !== 'any' && type !== 'tool') || family.forcedChoice === 'always') return undefined;
  const option = `a forced tool choice (toolChoice 'required' or { name }; tool_choice ${JSON.stringify(type)})`;
  if (family.forcedChoice === 'never') {
    return [
      option,
      "Use toolChoice 'auto' and say in the instructions when to call the tool; for data in a fixed form use `output`, or a strict tool.",
    ];
  }
  if (!thinksIn(body, family)) return undefined;
  return [`${option} while it thinks`, 'Leave providerOptions.thinking out: a forced call has no thinking.'];
}

/** From Claude 5 on. */
function effortProblem(body: JsonObject, family: ModelFamily): Problem | undefined {
  const { effort } = objectOf(body.output_config);
  if (!family.thinksByDefault || thinksIn(body, family)) return undefined;
  if (effort !== 'xhigh' && effort !== 'max') return undefined;
  return [
    `output_config.effort (${JSON.stringify(effort)}) without thinking`,
    "Use the effort 'high' or less, or leave providerOptions.thinking out.",
  ];
}

/** A paused turn, which the provider continues, ends with a block of its tools, not with text. */
function prefillProblem(body: JsonObject, family: ModelFamily): Problem | undefined {
  if (family.prefill) return undefined;
  const last = objectsOf(body.messages).at(-1);
  if (last?.role !== 'assistant' || textIn(objectsOf(last.content).at(-1)?.type) !== 'text') return undefined;
  return [
    'a transcript that ends with a text of the assistant (a prefill)',
    'End it with a message of the user, for example one that asks to continue the text; for a fixed form of the answer use `output`.',
  ];
}
