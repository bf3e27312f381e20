/** The provider's own tools, by the names that the model uses. */
export type ProviderTools = Record<string, { id: string; args: object }>;
