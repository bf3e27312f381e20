import { trimSlashes } from '../http/fetch-transport.ts';

/** The base URL with an API version: its own, such as that of a Vertex location, else `v1beta`. */
export function rootOf(baseURL: string): string {
  const root = trimSlashes(baseURL);
  if (!URL.canParse(root)) return root;
  return /\/v\d+(?:(?:alpha|beta)\d*)?(?:\/|$)/.test(new URL(root).pathname) ? root : `${root}/v1beta`;
}

/** Where a model is called. Its name may say what it is, such as `tunedModels/mine`. */
export function pathOf(model: string, stream: boolean): string {
  const name = (model.includes('/') ? model : `models/${model}`).split('/').map(encodeURIComponent).join('/');
  return `/${name}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`;
}
